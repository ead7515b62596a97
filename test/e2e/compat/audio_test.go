package compat

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"agentd/internal/app"
	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
)

// voiced is a node that speaks and listens, for OpenAI's own client.
func voiced(t *testing.T, opts ...modeltest.Option) (*apptest.Server, *modeltest.Server, *openai.Client) {
	t.Helper()
	sim := modeltest.New(t, append(opts, modeltest.RequireKey("operator-key"))...)
	n := apptest.Start(t, sim, func(c *config.Config) {
		c.Models.SpeechModel, c.Models.TranscriptionModel, c.Models.SpeechVoice = "default/speaker", "listener", "ash"
	})
	return n, sim, openAIClient(n, option.WithBaseURL(n.URL+"/api/v1/llm/"))
}

func TestSpeech(t *testing.T) {
	t.Parallel()
	sound, gate := bytes.Repeat([]byte("ID3"), 40_000), make(chan struct{})
	n, sim, c := voiced(t, modeltest.Sounds(
		modeltest.Sound{Data: sound, Gate: gate}, modeltest.Sound{}, modeltest.Sound{Status: 400, Error: "no such voice"}, modeltest.Sound{BreakAfter: 3000},
		modeltest.Sound{Data: []byte(`{"error":{"message":"out of credit"}}`), Type: "application/json"}, modeltest.Sound{Data: []byte{}},
	))
	resp, err := c.Audio.Speech.New(t.Context(), openai.AudioSpeechNewParams{
		Input: "Good day", Model: "tts", Voice: openai.AudioSpeechNewParamsVoiceUnion{OfString: openai.String("nova")},
		ResponseFormat: openai.AudioSpeechNewParamsResponseFormatOpus, Speed: openai.Float(1.25),
	})
	if err != nil {
		t.Fatal(err)
	}
	// The first half arrives while the model still speaks.
	half := make([]byte, len(sound)/2)
	if _, err := io.ReadFull(resp.Body, half); err != nil {
		t.Fatal(err)
	}
	close(gate)
	rest, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !bytes.Equal(slices.Concat(half, rest), sound) || resp.Header.Get("Content-Type") != "audio/mpeg" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d and %d bytes, %v, %v", len(half), len(rest), resp.Header, err)
	}
	first := sim.SpeechRequests()[0]
	if got := first.Header.Get("Authorization"); got != "Bearer operator-key" {
		t.Errorf("asked with %s", got)
	}
	first.Header = nil
	// Clients name models of another service and mean whatever there is.
	if diff := cmp.Diff(modeltest.SpeechRequest{Model: "speaker", Input: "Good day", Voice: "nova", Format: "opus", Speed: 1.25}, first); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}

	const path = "/api/v1/llm/audio/speech"
	if got := n.Do("POST", path, object{"input": "x"}); got.StatusCode != 200 || len(got.Body) < 1000 {
		t.Errorf("%d, %d bytes", got.StatusCode, len(got.Body))
	}
	if got := sim.SpeechRequests()[1]; got.Voice != "ash" || got.Format != "mp3" {
		t.Errorf("without wishes: %+v", got)
	}
	n.Do("POST", path, object{"input": "x"}).IsProblem(t, 400, "model_error")
	req, err := http.NewRequestWithContext(t.Context(), "POST", n.URL+path, strings.NewReader(`{"input":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+n.Key)
	cut, err := apptest.HTTPClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer cut.Body.Close()
	if got, err := io.ReadAll(cut.Body); err == nil || cut.StatusCode != 200 || len(got) > 3000 {
		t.Errorf("what breaks off reads like a whole: %d bytes", len(got))
	}
	n.Do("POST", path, object{"input": "x"}).IsProblem(t, 502, "model_error")
	n.Do("POST", path, object{"input": "x"}).IsProblem(t, 502, "model_error")

	for body, field := range map[string]string{
		`{}`: "input", `{"input":""}`: "input", `{"input":"  "}`: "input", `{"input":7}`: "input", `{"input":"x","response_format":"midi"}`: "response_format", `{"input":"x","speed":9}`: "speed",
		`{"input":"` + strings.Repeat("ä", 4097) + `"}`: "input", `{"input":"x","voice":["a"]}`: "voice",
	} {
		got := n.Do("POST", path, body)
		got.IsProblem(t, 422, "VALIDATION_ERROR")
		if !strings.Contains(string(got.Body), `"field":"`+field+`"`) {
			t.Errorf("%.50s: %s", body, got.Body)
		}
	}
	n.Do("POST", path, `{"input":`).IsProblem(t, 400, "INVALID_REQUEST")
	if got := len(sim.SpeechRequests()); got != 6 {
		t.Errorf("%d calls", got)
	}
	apptest.Eventually(t, func() bool {
		used := n.Admin().Query(`SELECT SUM(model_calls) AS calls FROM usage_counters WHERE source = 'llm_proxy' AND model = 'default/speaker' AND LENGTH(period) = 10`)
		return len(used) == 1 && (used[0]["calls"] == int64(4) || used[0]["calls"] == 4.0)
	})
}

func TestTranscription(t *testing.T) {
	t.Parallel()
	n, sim, c := voiced(t, modeltest.Transcripts(modeltest.Answer{}, modeltest.Answer{}, modeltest.Answer{}, modeltest.Answer{Raw: []byte(`nothing`)}, modeltest.Answer{Status: 500, Error: "boom"}))
	sound := bytes.Repeat([]byte("sound"), 300_000)
	got, err := c.Audio.Transcriptions.New(t.Context(), openai.AudioTranscriptionNewParams{
		File: openai.File(bytes.NewReader(sound), "talk.mp3", "audio/mpeg"), Model: "stt", Language: openai.String("de"), Prompt: openai.String("names"), Temperature: openai.Float(0.5),
	})
	if err != nil || got.Text != "1500000 bytes of speech" {
		t.Fatalf("%+v, %v", got, err)
	}
	first := sim.TranscriptionRequests()[0]
	if !bytes.Equal(first.File, sound) {
		t.Errorf("another sound arrived, of %d bytes", len(first.File))
	}
	first.Header, first.File = nil, nil
	want := modeltest.TranscriptionRequest{
		Fields: map[string]string{"model": "listener", "language": "de", "prompt": "names", "temperature": "0.5", "response_format": "json"}, Name: "talk.mp3", Type: "audio/mpeg",
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}

	const path = "/api/v1/llm/audio/transcriptions"
	form := func(parts ...string) string {
		var b strings.Builder
		for i := 0; i+1 < len(parts); i += 2 {
			b.WriteString("--b\r\nContent-Disposition: form-data; name=" + parts[i] + "\r\n\r\n" + parts[i+1] + "\r\n")
		}
		return b.String() + "--b--\r\n"
	}
	const file = `"file"; filename="a.wav"`
	send := func(body string, headers ...string) apptest.Reply {
		return n.Do("POST", path, body, append([]string{"Content-Type", "multipart/form-data; boundary=b"}, headers...)...)
	}
	// Fields may stand before the file or after it.
	verbose := send(form(`"language"`, "en", `"prompt"`, strings.Repeat("𝄞", 4096), file, "x", `"response_format"`, "verbose_json"))
	if verbose.StatusCode != 200 || verbose.JSON["duration"] != 1.5 || verbose.JSON["text"] != "1 bytes of speech" {
		t.Errorf("%d %s", verbose.StatusCode, verbose.Body)
	}
	once := send(form(file, "again"), "Idempotency-Key", "once")
	again := send(form(file, "again"), "Idempotency-Key", "once")
	if once.StatusCode != 200 || string(once.Body) != string(again.Body) || again.Header.Get("X-Idempotency-Replayed") != "true" {
		t.Errorf("%s, then %s", once.Body, again.Body)
	}
	send(form(file, "x")).IsProblem(t, 502, "model_error")
	send(form(file, "x")).IsProblem(t, 503, "model_error")
	for name, tt := range map[string]struct {
		body   string
		status int
		code   string
		says   string
	}{
		"no file":     {form(`"language"`, "de"), 422, "VALIDATION_ERROR", `"file"`},
		"empty file":  {form(file, ""), 422, "VALIDATION_ERROR", `"file"`},
		"text":        {form(file, "x", `"response_format"`, "srt", `"temperature"`, "warm"), 422, "VALIDATION_ERROR", `"temperature"`},
		"long prompt": {form(file, "x", `"prompt"`, strings.Repeat("p", 4097)), 422, "VALIDATION_ERROR", `"prompt"`},
		"no text":     {form(file, "x", `"language"`, "\xff"), 422, "VALIDATION_ERROR", `"language"`},
		"cut off":     {"--b\r\nContent-Disposition: form-data; name=" + file + "\r\n\r\nx", 400, "INVALID_REQUEST", ""},
		"no form":     {"sound", 422, "VALIDATION_ERROR", `"file"`},
		"nothing":     {"", 422, "VALIDATION_ERROR", `"file"`},
		"many parts":  {form(slicesOf(`"x"`, 120)...), 400, "INVALID_REQUEST", ""},
	} {
		got := send(tt.body)
		got.IsProblem(t, tt.status, tt.code)
		if !strings.Contains(string(got.Body), tt.says) {
			t.Errorf("%s: %s", name, got.Body)
		}
	}
	n.Do("POST", path, `{}`).IsProblem(t, 415, "UNSUPPORTED_MEDIA_TYPE")
	n.Do("POST", path, "x", "Content-Type", "multipart/form-data").IsProblem(t, 415, "UNSUPPORTED_MEDIA_TYPE")
	if got := len(sim.TranscriptionRequests()); got != 5 {
		t.Errorf("%d calls", got)
	}
}

// slicesOf is a text n times.
func slicesOf(text string, n int) (all []string) {
	for range n {
		all = append(all, text)
	}
	return all
}

func TestAudioThatIsNotConfigured(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t))
	c := openAIClient(n, option.WithBaseURL(n.URL+"/api/v1/llm/"))
	_, err := c.Audio.Transcriptions.New(t.Context(), openai.AudioTranscriptionNewParams{File: strings.NewReader("x"), Model: "stt"})
	if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != 501 {
		t.Errorf("%v", err)
	}
	n.Do("POST", "/api/v1/llm/audio/speech", object{"input": "x"}).IsProblem(t, 501, "speech_not_configured")
	config := n.Expect(200, "GET", "/api/v1/llm/voice-config", nil)
	if config["stt"].(object)["configured"] != false || config["tts"].(object)["configured"] != false {
		t.Errorf("%v", config)
	}
	// A model that nobody serves stops the start.
	bad := n.Config
	bad.Storage.DataDir, bad.Models.SpeechModel = t.TempDir(), "builtin/echo"
	if a, err := app.Start(t.Context(), bad, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "AGENTD_SPEECH_MODEL") {
		t.Errorf("%v", err)
		if err == nil {
			a.Stop(t.Context())
		}
	}
}
