package modelcall

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
)

// Limits of a list of models.
const (
	ListTimeout = 10 * time.Second
	MaxList     = 4 << 20 // bytes
	maxListed   = 5000
	maxName     = 300 // characters of an id or name
)

var errNoList = errors.New("modelcall: the answer is not a list of models")

func listError(cause error) *model.Error {
	return &model.Error{
		Code: CodeModel, Status: http.StatusOK, Cause: cause,
		Detail: "The model endpoint sent something that is no list of models; check its address and its wire.",
	}
}

// ReadList reads the forms that are in use: {"data": [...]}, {"models": [...]},
// and a bare array. What has no id is left out, and what was listed before.
func ReadList(raw []byte, asked *model.Request) ([]model.Listed, error) {
	var answer struct {
		Data   jsontext.Value `json:"data"`
		Models jsontext.Value `json:"models"`
		Error  jsontext.Value `json:"error"`
	}
	list := jsontext.Value(raw)
	if list.Kind() != '[' {
		if err := json.Unmarshal(raw, &answer, Lenient); err != nil {
			return nil, listError(err)
		}
		list = answer.Data
		if list.Kind() != '[' {
			list = answer.Models
		}
	}
	if list.Kind() != '[' {
		if kind := answer.Error.Kind(); kind == '{' || kind == '"' {
			return nil, Classify(http.StatusOK, ParseError(raw), asked)
		}
		return nil, listError(errNoList)
	}
	var entries []struct {
		ID      Text           `json:"id"`
		Name    Text           `json:"name"`
		Display Text           `json:"display_name"`
		Created jsontext.Value `json:"created"`
		Length  jsontext.Value `json:"context_length"`
		Window  jsontext.Value `json:"context_window"`
		Most    jsontext.Value `json:"max_model_len"`
	}
	if err := json.Unmarshal(list, &entries, Lenient); err != nil {
		return nil, listError(err)
	}
	models := make([]model.Listed, 0, min(len(entries), maxListed))
	seen := make(map[string]bool, len(entries))
	for _, e := range entries {
		id := string(cmp.Or(e.ID, e.Name))
		if id == "" || len(id) > maxName || len(models) == maxListed || seen[id] {
			continue
		}
		seen[id] = true
		m := model.Listed{ID: id, Name: string(cmp.Or(e.Display, e.Name)), Created: Number(e.Created, 1<<40)}
		if m.Name == id || len(m.Name) > maxName {
			m.Name = ""
		}
		m.Context = int(cmp.Or(Number(e.Length, maxWindow), Number(e.Window, maxWindow), Number(e.Most, maxWindow)))
		models = append(models, m)
	}
	return models, nil
}

// maxWindow is the largest context window that is read.
const maxWindow = 1 << 30

// Number returns a whole number from 1 to limit, 0 for any other value.
func Number(raw jsontext.Value, limit int64) int64 {
	var n float64
	if raw.Kind() != '0' || json.Unmarshal(raw, &n) != nil || !(n >= 1 && n <= float64(limit)) {
		return 0
	}
	return int64(n)
}
