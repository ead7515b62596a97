package imagetool_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/content/imagetool"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/tool"
)

// painter is a model that makes pictures, and notes what it was asked.
type painter struct {
	err   error
	asked model.ImageRequest
}

func (p *painter) Image(_ context.Context, req model.ImageRequest) (model.Image, error) {
	p.asked = req
	if p.err != nil {
		return model.Image{}, p.err
	}
	return model.Image{MimeType: "image/png", Data: []byte("PNG"), Revised: "A dot, red."}, nil
}

func maker(t *testing.T, p *painter) *imagetool.Maker {
	t.Helper()
	providers, err := model.ParseProviders([]byte(`{"providers": [
		{"name": "default", "base_url": "http://10.0.0.1/v1", "models": [{"id": "chat"}]},
		{"name": "acme", "base_url": "https://acme.example/v1", "models": [{"id": "talk"}, {"id": "paint", "capabilities": {"images": true}}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	catalogue, err := model.NewCatalogue(providers, "chat")
	if err != nil {
		t.Fatal(err)
	}
	registry, err := tool.NewRegistry(tool.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return &imagetool.Maker{Models: catalogue, Client: p, Tools: registry}
}

func TestGenerateImage(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		settings, arguments string
		err                 error
		model, url          string // that is asked; "": none
		says                string // a failure
	}{
		"first-that-paints":  {`{}`, `{"prompt":"A red dot","size":"64x64"}`, nil, "paint", "https://acme.example/v1", ""},
		"of-a-provider":      {`{"provider":"acme"}`, `{"prompt":"A red dot"}`, nil, "paint", "https://acme.example/v1", ""},
		"by-name":            {`{"provider":"acme","model":"other"}`, `{"prompt":"A red dot"}`, nil, "other", "https://acme.example/v1", ""},
		"by-ref":             {`{"model":"acme/talk"}`, `{"prompt":"A red dot"}`, nil, "talk", "https://acme.example/v1", ""},
		"of-the-default":     {`{"provider":"openai_compat","model":"painter"}`, `{"prompt":"A red dot","size":null}`, nil, "painter", "http://10.0.0.1/v1", ""},
		"no-such-provider":   {`{"provider":"nobody"}`, `{"prompt":"x"}`, nil, "", "", `There is no model provider "nobody"`},
		"none-that-paints":   {`{"provider":"default"}`, `{"prompt":"x"}`, nil, "", "", "No model that makes pictures is configured"},
		"no-model-at-all":    {`{"model":"builtin/echo"}`, `{"prompt":"x"}`, nil, "", "", "makes no pictures"},
		"refused":            {`{}`, `{"prompt":"x"}`, &model.Error{Code: "model_error", Detail: "The prompt was rejected."}, "paint", "https://acme.example/v1", "No picture was created. The prompt was rejected."},
		"no-prompt":          {`{}`, `{"prompt":""}`, nil, "", "", "do not fit"},
		"a-size-like-a-path": {`{}`, `{"prompt":"x","size":"../../x"}`, nil, "", "", "do not fit"},
		"further-arguments":  {`{}`, `{"prompt":"x","model":"y"}`, nil, "", "", "do not fit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &painter{err: tt.err}
			set := maker(t, p).Set(jsontext.Value(tt.settings))
			got, err := set.Call(t.Context(), tool.Call{Name: imagetool.Name, Arguments: tt.arguments})
			if err != nil {
				t.Fatal(err)
			}
			if p.asked.Target.Model != tt.model || p.asked.Target.BaseURL != tt.url {
				t.Errorf("asked %+v", p.asked.Target)
			}
			if tt.says != "" {
				if !got.Failed || !strings.Contains(got.Output, tt.says) || got.Files != nil {
					t.Errorf("%+v", got)
				}
				return
			}
			if got.Failed || len(got.Files) != 1 || string(got.Files[0].Data) != "PNG" || got.Files[0].MimeType != "image/png" ||
				!regexp.MustCompile(`^image-[0-9a-f]{12}\.png$`).MatchString(got.Files[0].Name) || !strings.Contains(got.Output, got.Files[0].Name) ||
				!strings.Contains(got.Output, "A dot, red.") {
				t.Errorf("%+v", got)
			}
			var args struct {
				Size string `json:"size"`
			}
			if err := json.Unmarshal([]byte(tt.arguments), &args); err != nil || p.asked.Prompt != "A red dot" || p.asked.Size != args.Size {
				t.Errorf("%v; asked for %q of size %q", err, p.asked.Prompt, p.asked.Size)
			}
		})
	}
}

// An agent whose image_generation is not set does not have the tool, and a
// call whose outcome is unknown is not made again: it has been paid for.
func TestWhoHasTheTool(t *testing.T) {
	t.Parallel()
	m := maker(t, &painter{})
	for _, none := range []string{"", "null", "7"} {
		if n := m.Set(jsontext.Value(none)).Len(); n != 0 {
			t.Errorf("%q gives %d tools", none, n)
		}
	}
	got, ok := m.Set(jsontext.Value(`{}`)).Lookup(imagetool.Name)
	if !ok || got.Repeatable() {
		t.Errorf("%+v", got)
	}
}

func TestCallThatIsGivenUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	set := maker(t, &painter{err: context.Canceled}).Set(jsontext.Value(`{}`))
	if _, err := set.Call(ctx, tool.Call{Name: imagetool.Name, Arguments: `{"prompt":"x"}`}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
