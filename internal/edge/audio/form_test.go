package audio

import (
	"bytes"
	"mime/multipart"
	"strings"
	"testing"
	"unicode/utf8"

	"agentd/internal/base/fault"
	"agentd/internal/kernel/model"
)

func TestPick(t *testing.T) {
	t.Parallel()
	providers, err := model.ParseProviders([]byte(`{"providers":[{"name":"default","base_url":"http://a","models":[{"id":"voice","modality":"tts"},{"id":"chat"}]},
		{"name":"acme","base_url":"http://b","models":[{"id":"voice-2","modality":"tts"},{"id":"ear","modality":"stt"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	catalogue, err := model.NewCatalogue(providers, "")
	if err != nil {
		t.Fatal(err)
	}
	a := &Audio{Catalogue: catalogue}
	for asked, want := range map[string]string{
		"": "chosen", "tts-1": "chosen", "acme/ear": "chosen", "default/chat": "chosen", "chat": "chosen", "voice-2": "chosen", "http://evil": "chosen",
		"acme/voice-2": "acme/voice-2", "default/voice": "default/voice", "voice": "default/voice",
	} {
		if got := a.chooseModel(asked, "chosen", model.TextToSpeech); got != want {
			t.Errorf("%q asks %s, want %s", asked, got, want)
		}
	}
}

func TestFormThatIsTooLarge(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	part, err := form.CreateFormFile("file", "a.wav")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := part.Write(make([]byte, 50<<20+1)); err != nil {
		t.Fatal(err)
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := parseForm(b.Bytes(), form.Boundary()); !fault.Is(err, fault.TooLarge) {
		t.Errorf("%v", err)
	}
}

// Whatever is sent, it is a request that can be passed on, or a refusal.
func FuzzForm(f *testing.F) {
	part := func(head, body string) string { return "--b\r\n" + head + "\r\n\r\n" + body + "\r\n" }
	file := part(`Content-Disposition: form-data; name="file"; filename="a.mp3"`+"\r\nContent-Type: audio/mpeg", "sound")
	f.Add([]byte(file+"--b--\r\n"), "b")
	f.Add([]byte(part(`Content-Disposition: form-data; name="language"`, "de")+file+part(`Content-Disposition: form-data; name="temperature"`, "0.5")+"--b--\r\n"), "b")
	f.Add([]byte(file), "b")
	f.Add([]byte(part(`Content-Disposition: form-data; name="file"; filename="../../etc/passwd`+"\x00\"", "x")+"--b--"), "b")
	f.Add([]byte("--b\r\n\r\n\r\n--b--"), "")
	f.Fuzz(func(t *testing.T, data []byte, boundary string) {
		if boundary == "" {
			return // refused before
		}
		req, named, err := parseForm(data, boundary)
		if err != nil {
			if kind := fault.From(err).Kind; kind != fault.Malformed && kind != fault.Invalid && kind != fault.TooLarge {
				t.Fatalf("%v", err)
			}
			return
		}
		if len(req.File) == 0 || len(req.File) > len(data) || req.Name == "" || strings.ContainsAny(req.Name+req.Type, "\r\n\x00") || strings.Contains(req.Name, "/") {
			t.Fatalf("%q %q, %d bytes", req.Name, req.Type, len(req.File))
		}
		if !utf8.ValidString(req.Language+req.Prompt+named) || utf8.RuneCountInString(req.Language) > 35 || utf8.RuneCountInString(req.Prompt) > 4096 {
			t.Fatalf("%q %q %q", req.Language, req.Prompt, named)
		}
		if req.Temperature != nil && !(*req.Temperature >= 0 && *req.Temperature <= 1) {
			t.Fatalf("temperature %v", *req.Temperature)
		}
	})
}
