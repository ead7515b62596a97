// Package imaging is the tool generate_image, which agents have whose
// image_generation is set (interface.md section 2, Agent).
package imagetool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ident"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/tool"
)

// Name of the tool.
const Name = "generate_image"

// timeout of one picture; large ones take a minute and more.
const timeout = 4 * time.Minute

// parameters of the tool. Endpoints take different sizes; they say so.
const parameters = `{"type":"object","properties":{` +
	`"prompt":{"type":"string","minLength":1,"maxLength":32000,"description":"What the picture shows, in detail."},` +
	`"size":{"type":["string","null"],"pattern":"^([1-9][0-9]{1,4}x[1-9][0-9]{1,4}|auto)$","description":"Width x height in pixels, for example 1024x1024; left out: the model's usual size."}` +
	`},"required":["prompt"],"additionalProperties":false}`

// Models finds the model that makes pictures; see model.Catalogue.ImageTarget.
type Models interface {
	ImageTarget(provider, name string) (model.Target, error)
}

// Maker gives agents the tool.
type Maker struct {
	Models Models
	Client model.ImageClient
	Tools  *tool.Registry // whose limits hold
}

// settings is the agent's field image_generation.
type settings struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
}

// Set gives the tool to an agent with these settings, or nothing where there
// are none.
func (m *Maker) Set(raw jsontext.Value) tool.Set {
	var s settings
	if len(raw) == 0 || raw.Kind() != '{' || json.Unmarshal(raw, &s) != nil {
		return tool.Set{}
	}
	// The one tool is good: a test compiles it.
	set, _ := m.Tools.Compile(tool.Tool{
		Name:        Name,
		Description: "Makes a picture from a description. The picture becomes a file of the run; the result tells its name.",
		Parameters:  jsontext.Value(parameters),
		Timeout:     timeout,
		Run: func(ctx context.Context, call tool.Call) (tool.Result, error) {
			return m.make(ctx, s, call.Arguments)
		},
	})
	return set
}

// make makes one picture. What goes wrong at the endpoint is told to the model.
func (m *Maker) make(ctx context.Context, s settings, arguments string) (tool.Result, error) {
	var args struct {
		Prompt string `json:"prompt"`
		Size   string `json:"size"`
	}
	if err := json.Unmarshal([]byte(arguments), &args); err != nil {
		return tool.Result{}, err
	}
	target, err := m.Models.ImageTarget(s.Provider, s.Model)
	if err != nil {
		return noPicture(err)
	}
	img, err := m.Client.Image(ctx, model.ImageRequest{Target: target, Prompt: args.Prompt, Size: args.Size})
	if err != nil {
		return noPicture(err)
	}
	file := tool.File{
		Name:     "image-" + strings.ReplaceAll(ident.New(), "-", "")[20:] + "." + strings.TrimPrefix(img.MimeType, "image/"),
		MimeType: img.MimeType, Data: img.Data,
	}
	said := fmt.Sprintf("The picture is made. It is the file %s of this run (%s, %d bytes); who reads your answer can open it there.", file.Name, file.MimeType, len(file.Data))
	if img.Revised != "" {
		said += "\nThe model took the description as: " + img.Revised
	}
	return tool.Result{Output: said, Files: []tool.File{file}}, nil
}

func noPicture(err error) (tool.Result, error) {
	failed, ok := errors.AsType[*model.Error](err)
	if !ok {
		return tool.Result{}, err
	}
	r := tool.Failure("No picture was made. " + failed.Detail)
	r.Cause = err
	return r, nil
}
