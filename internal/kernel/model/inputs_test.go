package model_test

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model"
)

func inputsOf(t *testing.T, inputs string) *model.Target {
	t.Helper()
	return &model.Target{Model: "m", Provider: "p", Capabilities: model.ParseCapabilities(jsontext.Value(`{"inputs":` + inputs + `}`))}
}

func picture(bytes int) jsontext.Value {
	return jsontext.Value(`{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
		base64.StdEncoding.EncodeToString(make([]byte, bytes)) + `"}}`)
}

var (
	pdfPart  = jsontext.Value(`{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,AAAA"}}`)
	wavPart  = jsontext.Value(`{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`)
	textFile = jsontext.Value(`{"type":"file","file":{"filename":"a.txt","file_data":"data:text/plain;base64,AAAA"}}`)
	byURL    = jsontext.Value(`{"type":"image_url","image_url":{"url":"https://pictures.example/a.png"}}`)
)

// What a model is known not to take is refused by its kind, with what to do; what is not
// known of a model is not refused (rule D23-input-limits).
func TestMisfits(t *testing.T) {
	t.Parallel()
	all := []jsontext.Value{model.TextPart("Look."), picture(30), byURL, pdfPart, wavPart, textFile}
	for name, tt := range map[string]struct {
		inputs string
		want   map[int]string // words of the reasons, by parts
	}{
		"nothing is known":      {`{}`, nil},
		"everything":            {`{"images":true,"documents":{"max_bytes":3},"audio":{"max_count":1}}`, nil},
		"no images":             {`{"images":false}`, map[int]string{1: "takes no images", 2: "describe it in the text"}},
		"no documents":          {`{"documents":false}`, map[int]string{3: "takes no documents. Choose another model, or send its text"}},
		"no recordings":         {`{"audio":false}`, map[int]string{4: "takes no recordings"}},
		"small images":          {`{"images":{"max_bytes":29}}`, map[int]string{1: "up to 29 bytes, and this one has 30"}},
		"images at the limit":   {`{"images":{"max_bytes":30}}`, nil},
		"small documents":       {`{"documents":{"max_bytes":2}}`, map[int]string{3: "up to 2 bytes"}},
		"small recordings":      {`{"audio":{"max_bytes":2}}`, map[int]string{4: "up to 2 bytes"}},
		"one image":             {`{"images":{"max_count":1}}`, map[int]string{2: "up to 1 images at once"}},
		"of another form":       {`{"images":"no","documents":[1],"audio":{"max_count":-1}}`, nil},
		"an unknown limit":      {`{"images":{"max_pages":1}}`, nil},
		"nothing is said of it": {`{"images":null}`, nil},
	} {
		got := map[int]string{}
		for _, m := range inputsOf(t, tt.inputs).Misfits(all) {
			got[m.Part] = m.Reason
		}
		if len(got) != len(tt.want) {
			t.Errorf("%s: %v", name, got)
		}
		for part, words := range tt.want {
			if !strings.Contains(got[part], words) {
				t.Errorf("%s: part %d: %q", name, part, got[part])
			}
		}
	}
}

// shownTo returns the parts that a target is sent, and the response.
func shownTo(t *testing.T, target *model.Target, messages []model.Message) (lines []string, resp model.Response) {
	t.Helper()
	r := model.Router{Wire: clientFunc(func(req model.Request) model.Response {
		for _, m := range req.Messages {
			for _, p := range m.Parts {
				lines = append(lines, string(p[:min(len(p), 90)]))
			}
		}
		return model.Response{Text: "So.", Dropped: []string{"seed"}}
	})}
	resp, err := r.Generate(t.Context(), model.Request{Target: *target, Messages: messages}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return lines, resp
}

type clientFunc func(model.Request) model.Response

func (f clientFunc) Generate(_ context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
	return f(req), nil
}

// Media of earlier messages, or sent to a fallback, are named in words where the model does
// not take them; of too many the newest stay. The caller's messages do not change.
func TestMediaInWords(t *testing.T) {
	t.Parallel()
	messages := []model.Message{
		{Role: model.User, Parts: []jsontext.Value{model.TextPart("First."), byURL, pdfPart}}, {Role: model.Assistant, Text: "Well."},
		{Role: model.User, Parts: []jsontext.Value{byURL, wavPart}},
	}
	lines, resp := shownTo(t, inputsOf(t, `{"images":{"max_count":1},"documents":false,"audio":false}`), messages)
	want := []string{
		`{"type":"text","text":"First."}`, `{"type":"text","text":"[An image is attached, which this model cannot see.]"}`,
		`{"type":"text","text":"[The file \"a.pdf\" is attached, which this model cannot read.]"}`,
		string(byURL), `{"type":"text","text":"[A recording is attached, which this model cannot hear.]"}`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"seed", "audio", "documents", "images"}, resp.Dropped); diff != "" {
		t.Errorf("dropped: %s", diff)
	}
	if string(messages[0].Parts[1]) != string(byURL) || string(messages[2].Parts[1]) != string(wavPart) {
		t.Error("the caller's messages changed")
	}
	if lines, resp = shownTo(t, inputsOf(t, `{"audio":true}`), messages); len(resp.Dropped) != 1 || lines[1] != string(byURL) {
		t.Errorf("a model that takes all: %q %q", resp.Dropped, lines)
	}
}

// What is said of a model takes precedence: the agent's, the catalogue's, supports_vision,
// the provider's, the public list's.
func TestWhoSaysWhatAModelTakes(t *testing.T) {
	t.Parallel()
	no := false
	c, err := model.NewCatalogue([]model.Provider{{
		Name: "deepseek", BaseURL: "https://api.deepseek.com/v1", Capabilities: jsontext.Value(`{"inputs":{"audio":{"max_count":7}}}`),
		Models: []model.Offer{
			{ID: "deepseek-chat", Capabilities: jsontext.Value(`{"inputs":{"documents":true}}`)},
			{ID: "blind", Facts: model.Facts{Vision: &no}},
		},
	}}, "")
	if err != nil {
		t.Fatal(err)
	}
	c.UsePrices(model.PublicPrices())
	none, yes := &model.Medium{None: true}, &model.Medium{}
	for name, tt := range map[string]struct {
		ref, said string
		want      model.Inputs
	}{
		"the catalogue before the list": {"deepseek/deepseek-chat", "", model.Inputs{Images: none, Documents: yes, Audio: none}},
		"the agent before all":          {"deepseek/deepseek-chat", `{"inputs":{"images":{"max_count":2}}}`, model.Inputs{Images: &model.Medium{Count: 2}, Documents: yes, Audio: none}},
		"supports_vision":               {"deepseek/blind", "", model.Inputs{Images: none}},
		"the provider before the list":  {"deepseek/deepseek-reasoner", "", model.Inputs{Images: none, Documents: none, Audio: &model.Medium{Count: 7}}},
		"of others":                     {"deepseek/other", "", model.Inputs{Audio: &model.Medium{Count: 7}}},
	} {
		got, err := model.Resolver{Catalogue: c}.Resolve(t.Context(), "acme", model.Spec{ModelRef: tt.ref, Capabilities: jsontext.Value(tt.said)})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got.Capabilities.Inputs); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, e := range c.List() {
		if e.Facts.Vision == nil || *e.Facts.Vision {
			t.Errorf("%s: supports_vision is not false", e.Ref)
		}
	}
}

func FuzzMisfits(f *testing.F) {
	f.Add([]byte(`{"type":"file","file":{"filename":"a","file_data":"data:application/pdf;base64,AA=="}}`), []byte(`{"inputs":{"images":{"max_count":1},"documents":false}}`))
	f.Add([]byte(`{"type":"image_url","image_url":{"url":"data:,"}}`), []byte(`{"inputs":{"images":{"max_bytes":1}}}`))
	f.Fuzz(func(t *testing.T, part, capabilities []byte) {
		target := &model.Target{Model: "m", Capabilities: model.ParseCapabilities(capabilities)}
		if len(target.Misfits([]jsontext.Value{part, part})) > 0 && !model.InWords(part).IsValid() {
			t.Errorf("%s: %s", part, model.InWords(part))
		}
	})
}
