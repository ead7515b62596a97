// Package imagetool implements the tool generate_image of agents whose
// image_generation is set.
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

// timeout of one picture; large ones take more than a minute.
const timeout = 4 * time.Minute

// parameters of the tool. Endpoints support different sizes and refuse others.
const parameters = `{"type":"object","properties":{` +
	`"prompt":{"type":"string","minLength":1,"maxLength":32000,"description":"What the picture shows, in detail."},` +
	`"size":{"type":["string","null"],"pattern":"^([1-9][0-9]{1,4}x[1-9][0-9]{1,4}|auto)$",` +
	`"description":"Width x height in pixels, for example 1024x1024; the model's default if left out."}` +
	`},"required":["prompt"],"additionalProperties":false}`

// Models finds the model that makes pictures; see model.Catalogue.ImageTarget.
type Models interface {
	ImageTarget(provider, name string) (model.Target, error)
}

// Maker provides the tool.
type Maker struct {
	Models Models
	Client model.ImageClient
	Tools  *tool.Registry // its limits apply
}

// settings is the agent's field image_generation.
type settings struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
}

// Set returns the toolset of an agent with these settings; it is empty without
// settings.
func (m *Maker) Set(raw jsontext.Value) tool.Set {
	var s settings
	if len(raw) == 0 || raw.Kind() != '{' || json.Unmarshal(raw, &s) != nil {
		return tool.Set{}
	}
	// The definition is valid: a test compiles it.
	set, _ := m.Tools.Compile(tool.Tool{
		Name:        Name,
		Description: "Creates a picture from a description. The picture becomes a file of the run; the result has its name.",
		Parameters:  jsontext.Value(parameters),
		Timeout:     timeout,
		Run: func(ctx context.Context, call tool.Call) (tool.Result, error) {
			return m.make(ctx, s, call.Arguments)
		},
	})
	return set
}

// make creates one picture. The model receives the endpoint's errors.
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
	result := fmt.Sprintf("Created the picture %s (%s, %d bytes), a file of this run that readers of your answer can open.",
		file.Name, file.MimeType, len(file.Data))
	if img.Revised != "" {
		result += "\nThe model revised the description to: " + img.Revised
	}
	return tool.Result{Output: result, Files: []tool.File{file}}, nil
}

func noPicture(err error) (tool.Result, error) {
	failed, ok := errors.AsType[*model.Error](err)
	if !ok {
		return tool.Result{}, err
	}
	r := tool.Failure("No picture was created. " + failed.Detail)
	r.Cause = err
	return r, nil
}
