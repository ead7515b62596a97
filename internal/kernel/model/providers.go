package model

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ParseProviders reads a providers file (AGENTD_PROVIDERS):
//
//	{"providers": [{"name": "acme", "base_url": "https://models.example/v1", "api_key": "…",
//	  "models": [{"id": "large", "context_window": 128000,
//	    "input_usd_per_mtok": 2.5, "output_usd_per_mtok": 10}]}]}
//
// Unknown and duplicate names are refused, so that a typing mistake shows at
// start. The error never quotes the file's values: some are keys.
func ParseProviders(file []byte) ([]Provider, error) {
	var doc struct {
		Providers []Provider `json:"providers"`
	}
	if err := json.Unmarshal(file, &doc, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("the providers file cannot be read: %w", explain(err))
	}
	if len(doc.Providers) == 0 {
		return nil, errors.New(`the providers file lists no provider; it has the form {"providers": [{"name", "base_url", "api_key", "models"}]}`)
	}
	for _, p := range doc.Providers {
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("the providers file: %w", err)
		}
	}
	return doc.Providers, nil
}

// explain returns err as a sentence that locates the mistake in the file,
// without Go's type names.
func explain(err error) error {
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		if errors.Is(err, json.ErrUnknownName) {
			return fmt.Errorf("%s is not a known setting", place(e.JSONPointer))
		}
		return fmt.Errorf("%s has a value of the wrong kind", place(e.JSONPointer))
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("it is not JSON at byte %d, in %s", e.ByteOffset, place(e.JSONPointer))
	}
	return err
}

func place(p jsontext.Pointer) string {
	if p == "" {
		return "the top level"
	}
	return strings.TrimPrefix(string(p), "/")
}
