package openaiclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"

	"agentd/internal/wire/modelcall"
)

func TestListModels(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range 5000 + 10 {
		fmt.Fprintf(&many, `{"id":"m%d"},`, i)
	}
	for name, tt := range map[string]struct {
		status int
		body   string
		want   []model.Listed
		code   string
		says   string
	}{
		"usual":      {200, `{"object":"list","data":[{"id":"a","object":"model","created":1700000000,"owned_by":"x"},{"id":"b"}]}`, []model.Listed{{ID: "a", Created: 1700000000}, {ID: "b"}}, "", ""},
		"more":       {200, `{"data":[{"id":"a","name":"Model A","context_length":8192},{"id":"b","display_name":"B","context_window":1},{"id":"c","name":"c","max_model_len":4096}]}`, []model.Listed{{ID: "a", Name: "Model A", Context: 8192}, {ID: "b", Name: "B", Context: 1}, {ID: "c", Context: 4096}}, "", ""},
		"bare":       {200, `[{"id":"a"}]`, []model.Listed{{ID: "a"}}, "", ""},
		"models":     {200, `{"models":[{"name":"models/a"}]}`, []model.Listed{{ID: "models/a"}}, "", ""},
		"odd-values": {200, `{"data":[{"id":"a","created":"yesterday","context_length":-1},{"id":7},{"name":null},{"id":"b","created":1e300,"context_length":1e300}]}`, []model.Listed{{ID: "a"}, {ID: "b"}}, "", ""},
		"empty":      {200, `{"data":[]}`, []model.Listed{}, "", ""},
		"id-twice":   {200, `{"data":[{"id":"x","id":"a"}]}`, []model.Listed{{ID: "a"}}, "", ""},
		"twice":      {200, `{"data":[{"id":"a","name":"A"},{"id":"b"},{"id":"a"}]}`, []model.Listed{{ID: "a", Name: "A"}, {ID: "b"}}, "", ""},
		"bad-key":    {401, `{"error":{"message":"Incorrect API key provided: sk-secret"}}`, nil, "provider_auth_failed", "refused the key"},
		"limited":    {429, `{"error":{"message":"slow down"}}`, nil, "model_rate_limited", "slow down"},
		"no-list":    {404, `not found`, nil, "model_error", "does not list"},
		"redirect":   {302, ``, nil, "model_error", "redirect"},
		"failed":     {500, `{"error":{"message":"at 10.0.0.1"}}`, nil, "model_error", "failed (status 500)"},
		"in-a-200":   {200, `{"error":{"message":"out of credit"}}`, nil, "model_error", "out of credit"},
		"html":       {200, `<html>`, nil, "model_error", "no list of models"},
		"object":     {200, `{"data":{"id":"a"}}`, nil, "model_error", "no list of models"},
		"no-objects": {200, `{"data":["a"]}`, nil, "model_error", "no list of models"},
		"null":       {200, `null`, nil, "model_error", "no list of models"},
		"too-large":  {200, `{"data":[]}` + strings.Repeat(" ", (4<<20)), nil, "model_error", "longer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked *http.Request
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = r
				if tt.status == 302 {
					w.Header().Set("Location", "/elsewhere")
				}
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			}))
			defer server.Close()
			c := New(Config{})
			defer c.Operator.(*http.Transport).CloseIdleConnections()
			got, err := c.ListModels(t.Context(), model.Target{BaseURL: server.URL + "/v1", APIKey: secret.New("sk-secret")})
			if asked.URL.Path != "/v1/models" || asked.Method != "GET" || asked.Header.Get("Authorization") != "Bearer sk-secret" {
				t.Errorf("asked %s %s %v", asked.Method, asked.URL, asked.Header)
			}
			checkFailure(t, err, tt.code, tt.says)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("most", func(t *testing.T) {
		t.Parallel()
		got, err := modelcall.ReadList([]byte(`[`+many.String()+`{"id":"last"}]`), &model.Request{})
		if err != nil || len(got) != 5000 {
			t.Errorf("%d models, %v", len(got), err)
		}
	})
}

// checkFailure fails unless an error has the code and the words; code "" means
// that there is none.
func checkFailure(t *testing.T, err error, code, says string) {
	t.Helper()
	failed, _ := errors.AsType[*model.Error](err)
	switch {
	case code == "" && err != nil:
		t.Errorf("failed: %v", err)
	case code != "" && (failed == nil || failed.Code != code || !strings.Contains(failed.Detail, says)):
		t.Errorf("%v, want %s: %s", err, code, says)
	case failed != nil && (strings.Contains(failed.Detail, "sk-secret") || strings.Contains(failed.Detail, "10.0.0.1") || strings.Contains(fmt.Sprint(failed.Cause), "sk-secret")):
		t.Errorf("tells too much: %+v", failed)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// silence is an endpoint that never answers.
var silence = roundTrip(func(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
})

func TestEndpointsThatAreSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{Operator: silence})
		to := model.Target{BaseURL: "http://a/v1"}
		for name, call := range map[string]func(context.Context) error{
			"list":  func(ctx context.Context) error { _, err := c.ListModels(ctx, to); return err },
			"speak": func(ctx context.Context) error { _, err := c.Speak(ctx, model.SpeechRequest{Target: to}); return err },
			"listen": func(ctx context.Context) error {
				_, err := c.Transcribe(ctx, model.TranscriptionRequest{Target: to})
				return err
			},
		} {
			checkFailure(t, call(t.Context()), "model_error", "did not begin to answer in time")
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := call(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%s given up: %v", name, err)
			}
			to.Guarded = true
			checkFailure(t, call(t.Context()), "provider_not_configured", "disabled")
			to.Guarded = false
		}
	})
}

func TestEndpointsThatAreNone(t *testing.T) {
	t.Parallel()
	c := New(Config{Operator: silence})
	to := model.Target{BaseURL: "http://a b/v1"}
	_, err := c.ListModels(t.Context(), to)
	checkFailure(t, err, "provider_not_configured", "not a URL")
	_, err = c.Speak(t.Context(), model.SpeechRequest{Target: to})
	checkFailure(t, err, "provider_not_configured", "not a URL")
	_, err = c.Transcribe(t.Context(), model.TranscriptionRequest{Target: to})
	checkFailure(t, err, "provider_not_configured", "not a URL")
}

func TestSpeak(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		sound  modeltest.Sound
		format string
		kind   string
		code   string
		says   string
		late   bool // it fails while it is read
	}{
		"usual":         {modeltest.Sound{}, "mp3", "audio/mpeg", "", "", false},
		"type":          {modeltest.Sound{Type: "audio/wav"}, "wav", "audio/wav", "", "", false},
		"octets":        {modeltest.Sound{Type: "application/octet-stream"}, "flac", "audio/flac", "", "", false},
		"parameters":    {modeltest.Sound{Type: "audio/pcm; rate=24000"}, "pcm", "audio/pcm", "", "", false},
		"refused":       {modeltest.Sound{Status: 400, Error: "no such voice"}, "mp3", "", "model_error", "no such voice", false},
		"key":           {modeltest.Sound{Status: 401, Error: "bad sk-secret"}, "mp3", "", "provider_auth_failed", "refused the key", false},
		"error-in-200":  {modeltest.Sound{Type: "application/json", Data: []byte(`{"error":{"message":"out of credit"}}`)}, "mp3", "", "model_error", "out of credit", false},
		"page":          {modeltest.Sound{Type: "text/html", Data: []byte(`<script>`)}, "mp3", "", "model_error", "no audio", false},
		"breaks-off":    {modeltest.Sound{BreakAfter: 5000}, "mp3", "audio/mpeg", "model_error", "broke", true},
		"too-much":      {modeltest.Sound{Data: bytes.Repeat([]byte("x"), maxSpeech+1)}, "mp3", "audio/mpeg", "model_error", "longer", true},
		"just-not-much": {modeltest.Sound{Data: bytes.Repeat([]byte("x"), maxSpeech)}, "mp3", "audio/mpeg", "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Config{}, modeltest.Sounds(tt.sound), modeltest.RequireKey("sk-secret"))
			b.req.Target.APIKey = secret.New("sk-secret")
			got, err := b.Speak(t.Context(), model.SpeechRequest{Target: b.req.Target, Input: "Say \"hi\"\n", Voice: "ash", Format: tt.format, Speed: 1.5, Instructions: "Softly."})
			if !tt.late {
				checkFailure(t, err, tt.code, tt.says)
			}
			if err != nil {
				return
			}
			defer got.Audio.Close()
			data, err := io.ReadAll(got.Audio)
			checkFailure(t, err, tt.code, tt.says)
			if got.Type != tt.kind || err == nil && len(data) < 1000 || tt.sound.Data != nil && err == nil && !bytes.Equal(data, tt.sound.Data) {
				t.Errorf("%s, %d bytes", got.Type, len(data))
			}
			req := b.sim.SpeechRequests()[0]
			req.Header = nil
			want := modeltest.SpeechRequest{Model: b.req.Target.Model, Input: "Say \"hi\"\n", Voice: "ash", Format: tt.format, Speed: 1.5, Instructions: "Softly."}
			if diff := cmp.Diff(want, req); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTranscribe(t *testing.T) {
	t.Parallel()
	warm := 0.25
	for name, tt := range map[string]struct {
		answer modeltest.Answer
		text   string
		json   string
		code   string
		says   string
	}{
		"usual":        {modeltest.Answer{}, "5 bytes of speech", "", "", ""},
		"plain":        {modeltest.Answer{Raw: []byte(`{"text":"hi"}`)}, "hi", `{"text":"hi"}`, "", ""},
		"empty":        {modeltest.Answer{Raw: []byte(`{"text":""}`)}, "", `{"text":""}`, "", ""},
		"twice":        {modeltest.Answer{Raw: []byte(`{"text":"no","text":"hi","x":1}`)}, "hi", `{"text":"hi"}`, "", ""},
		"no-utf8":      {modeltest.Answer{Raw: []byte("{\"text\":\"h\xffi\"}")}, "h\uFFFDi", "{\"text\":\"h\uFFFDi\"}", "", ""},
		"odd-usage":    {modeltest.Answer{Raw: []byte(`{"text":"hi","usage":{"type":"duration","seconds":3,"input_tokens":"x"}}`)}, "hi", "", "", ""},
		"refused":      {modeltest.Answer{Status: 400, Error: "too short"}, "", "", "model_error", "too short"},
		"key":          {modeltest.Answer{Status: 403, Error: "sk-secret"}, "", "", "provider_auth_failed", "refused the key"},
		"error-in-200": {modeltest.Answer{Raw: []byte(`{"error":{"message":"out of credit"}}`)}, "", "", "model_error", "out of credit"},
		"no-text":      {modeltest.Answer{Raw: []byte(`{"segments":[]}`)}, "", "", "model_error", "did not send a transcription"},
		"null":         {modeltest.Answer{Raw: []byte(`null`)}, "", "", "model_error", "did not send a transcription"},
		"words":        {modeltest.Answer{Raw: []byte(`WEBVTT`)}, "", "", "model_error", "did not send a transcription"},
		"too-large":    {modeltest.Answer{Raw: bytes.Repeat([]byte(" "), maxTranscript+1)}, "", "", "model_error", "longer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Config{}, modeltest.Transcripts(tt.answer), modeltest.RequireKey("sk-secret"))
			b.req.Target.APIKey = secret.New("sk-secret")
			got, err := b.Transcribe(t.Context(), model.TranscriptionRequest{
				Target: b.req.Target, File: []byte("sound"), Name: "a\r\n\"b.mp3", Type: "audio/mpeg", Language: "de", Prompt: "names", Verbose: true, Temperature: &warm,
			})
			checkFailure(t, err, tt.code, tt.says)
			if got.Text != tt.text || tt.json != "" && string(got.JSON) != tt.json || err == nil && !got.JSON.IsValid() {
				t.Errorf("%q, %s", got.Text, got.JSON)
			}
			if name == "usual" && (got.Usage != model.Usage{InputTokens: 14, OutputTokens: 4}) {
				t.Errorf("usage %+v", got.Usage)
			}
			req := b.sim.TranscriptionRequests()[0]
			req.Header = nil
			want := modeltest.TranscriptionRequest{
				Fields: map[string]string{"model": b.req.Target.Model, "response_format": "verbose_json", "language": "de", "prompt": "names", "temperature": "0.25"},
				File:   []byte("sound"), Name: `a  "b.mp3`, Type: "audio/mpeg",
			}
			if diff := cmp.Diff(want, req); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever an endpoint sends, what is made of it can be passed on.
func FuzzForeignAnswers(f *testing.F) {
	for _, seed := range []string{`{"data":[{"id":"a"}]}`, `[{"name":"a"}]`, `{"text":"hi"}`, `{"error":"no"}`, `{"text":null}`, "{\"text\":\"\xff\"}", `{"models":[{"id":1}]}`} {
		f.Add([]byte(seed))
	}
	asked := &model.Request{}
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := modelcall.ReadList(raw, asked)
		if (err == nil) != (list != nil) {
			t.Fatalf("%v and %v", list, err)
		}
		for _, m := range list {
			if m.ID == "" || len(m.ID) > 300 || len(m.Name) > 300 || m.Created < 0 || m.Context < 0 {
				t.Fatalf("%+v", m)
			}
		}
		if said, err := readTranscription(raw, asked); err == nil && (!said.JSON.IsValid() || said.JSON.Kind() != '{') {
			t.Fatalf("%q", said.JSON)
		}
	})
}
