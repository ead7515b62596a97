package openaiclient_test

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/wire/openaiclient"
)

// passing is a body that is passed on, as the edge finds its parts.
func passing(url string, stream bool, body string) model.Forward {
	if stream {
		body = strings.TrimSuffix(body, "}") + `,"stream":true}`
	}
	span := func(value string) model.Span {
		at := strings.Index(body, value)
		if at < 0 {
			return model.Span{}
		}
		return model.Span{From: at, To: at + len(value)}
	}
	return model.Forward{
		Target: model.Target{Model: "their-name", BaseURL: url}, Stream: stream, Body: []byte(body),
		Model: span(`"our-name"`), Options: span(`{"include_usage":false}`),
	}
}

const asked = `{"model":"our-name","messages":[{"role":"user","content":"Hi"}],"seed":7}`

func impatient() *openaiclient.Client {
	return openaiclient.New(openaiclient.Config{Backoff: time.Millisecond, MaxBackoff: time.Millisecond})
}

// What is passed on of an endpoint that misbehaves is well-formed: a client that
// knows no oddities reads of it what there is to read.
func TestForwardOddities(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		for _, odd := range modeltest.Oddities(stream) {
			name := "whole/" + odd.Name
			if stream {
				name = "streamed/" + odd.Name
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				sim := modeltest.New(t, modeltest.Default(odd.Answer))
				var got bytes.Buffer
				out, err := impatient().Forward(t.Context(), passing(sim.URL, stream, asked), func(piece []byte) error {
					got.Write(piece)
					return nil
				})
				if (err != nil) != odd.Fails {
					t.Fatalf("err = %v after %s", err, got.Bytes())
				}
				if err != nil {
					if n := strings.Count(got.String(), `"content":"`); odd.Text != "" && n < 1 {
						t.Errorf("nothing came before the error: %s", got.Bytes())
					}
					return
				}
				if out.Usage == (model.Usage{}) {
					t.Error("nothing is counted")
				}
				resp := out.Response
				if resp == nil {
					again := reread(t, got.Bytes(), stream)
					resp = &again
					if stream && !strings.HasSuffix(got.String(), "data: [DONE]\n\n") {
						t.Errorf("it ends with %q", got.Bytes())
					}
				}
				for i := range resp.ToolCalls {
					if resp.ToolCalls[i].ID == "" {
						t.Error("a call has no id")
					}
					if i < len(odd.Calls) && odd.Calls[i].ID == "" {
						resp.ToolCalls[i].ID = ""
					}
				}
				if diff := cmp.Diff(odd.Calls, resp.ToolCalls); diff != "" || resp.Text != odd.Text {
					t.Errorf("text %q, calls (-want +got):\n%s", resp.Text, diff)
				}
			})
		}
	}
}

// reread has what was passed on be read by the client for models.
func reread(t *testing.T, passed []byte, stream bool) model.Response {
	t.Helper()
	again := modeltest.New(t, modeltest.Default(modeltest.Answer{Raw: passed}))
	var sink func(model.Delta)
	if stream {
		sink = func(model.Delta) {}
	}
	resp, err := impatient().Generate(t.Context(), model.Request{Target: model.Target{Model: "m", BaseURL: again.URL}, Messages: []model.Message{{Role: model.User, Text: "Hi"}}}, sink)
	if err != nil {
		t.Fatalf("what was passed on cannot be read: %v\n%s", err, passed)
	}
	return resp
}

func TestForwardBody(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		stream bool
		body   string
		want   string
	}{
		{"whole", false, asked, `{"model":"their-name","messages":[{"role":"user","content":"Hi"}],"seed":7}`},
		{"streamed", true, asked, `{"stream_options":{"include_usage":true},"model":"their-name","messages":[{"role":"user","content":"Hi"}],"seed":7,"stream":true}`},
		{
			"with options before", true, `{ "stream_options" : {"include_usage":false}, "x":1, "model":"our-name"}`,
			`{ "stream_options" : {"include_usage":true}, "x":1, "model":"their-name","stream":true}`,
		},
		{"with options behind", true, `{"model":"our-name","stream_options":{"include_usage":false}}`, `{"model":"their-name","stream_options":{"include_usage":true},"stream":true}`},
		{"whole with options", false, `{"model":"our-name","stream_options":{"include_usage":false}}`, `{"model":"their-name","stream_options":{"include_usage":false}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sim := modeltest.New(t)
			if _, err := impatient().Forward(t.Context(), passing(sim.URL, tt.stream, tt.body), func([]byte) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if got := string(sim.Requests()[0].Body); got != tt.want {
				t.Errorf("sent %s, want %s", got, tt.want)
			}
		})
	}
}

// The chunk of usage is passed on to those who asked for it, and counted always.
func TestForwardUsage(t *testing.T) {
	t.Parallel()
	for _, wants := range []bool{false, true} {
		sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "a b", Usage: &model.Usage{InputTokens: 7, OutputTokens: 3, ThinkingTokens: 1}}))
		f := passing(sim.URL, true, asked)
		f.Usage = wants
		var got bytes.Buffer
		out, err := impatient().Forward(t.Context(), f, func(piece []byte) error {
			got.Write(piece)
			return nil
		})
		if want := (model.Usage{InputTokens: 7, OutputTokens: 3, ThinkingTokens: 1}); err != nil || out.Usage != want {
			t.Errorf("usage %+v, %v", out.Usage, err)
		}
		if strings.Contains(got.String(), `"usage":{`) != wants {
			t.Errorf("wanted: %v, passed on: %s", wants, got.String())
		}
	}
}

// An endpoint that does not know stream_options is asked without them, and from
// then on never with them.
func TestForwardWithoutOptions(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		if bytes.Contains(r.Body, []byte("stream_options")) {
			return modeltest.Answer{Status: 400, Error: "unknown field stream_options"}
		}
		return modeltest.Answer{Text: "a"}
	}))
	c := impatient()
	for range 2 {
		if _, err := c.Forward(t.Context(), passing(sim.URL, true, asked), func([]byte) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if n := sim.Calls(); n != 3 {
		t.Errorf("%d calls", n)
	}
}

// A call that fails before its first piece is repeated, one that fails later is
// not; the sink's error ends it.
func TestForwardRetries(t *testing.T) {
	t.Parallel()
	ignore := func([]byte) error { return nil }
	sim := modeltest.New(t, modeltest.Script(modeltest.Answer{Status: 503, Error: "busy"}, modeltest.Answer{Status: 429, Error: "slow"}))
	if _, err := impatient().Forward(t.Context(), passing(sim.URL, true, asked), ignore); err != nil || sim.Calls() != 3 {
		t.Errorf("%v after %d calls", err, sim.Calls())
	}
	sim = modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "a b c d", BreakAfter: 2}))
	var broken *model.Error
	if _, err := impatient().Forward(t.Context(), passing(sim.URL, true, asked), ignore); !errors.As(err, &broken) || sim.Calls() != 1 {
		t.Errorf("%v after %d calls", err, sim.Calls())
	}
	sim = modeltest.New(t, modeltest.Default(modeltest.Answer{Status: http.StatusBadRequest, Error: "temperature is wrong"}))
	if _, err := impatient().Forward(t.Context(), passing(sim.URL, false, asked), ignore); !errors.As(err, &broken) || broken.Status != 400 || !strings.Contains(broken.Detail, "temperature") {
		t.Errorf("%v", err)
	}
	sim = modeltest.New(t)
	gone := errors.New("gone")
	for _, stream := range []bool{false, true} {
		if _, err := impatient().Forward(t.Context(), passing(sim.URL, stream, asked), func([]byte) error { return gone }); !errors.Is(err, gone) {
			t.Errorf("the sink's error became %v", err)
		}
	}
}
