package openai

import (
	"bytes"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/modelproxy"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/edge/httpapi"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

// ChatProxy passes chat completions on to models (behaviours.md section 31): the same
// shape as POST /v1/chat/completions, but what is named is a model, and no run is
// made.
type ChatProxy struct {
	Proxy *modelproxy.Proxy
}

// ProxyRequest is what is looked at of POST /api/v1/llm/chat/completions. All of
// it goes to the model's endpoint.
type ProxyRequest struct {
	_ struct{} `json:"-" name:"LlmChatRequest"`

	Model         string           `json:"model" required:"true" minLength:"1" maxLength:"300" doc:"<provider>/<model>, as GET /api/v1/llm/models lists them, or a bare name of the default provider."`
	Messages      []jsontext.Value `json:"messages" required:"true" minItems:"1" maxItems:"10000" doc:"As the endpoint takes them."`
	Stream        *bool            `json:"stream,omitzero" nullable:"true"`
	StreamOptions schema.Nullable  `json:"stream_options,omitzero" doc:"include_usage true asks for a last chunk with the usage."`
}

// Routes of the proxy.
func (p *ChatProxy) Routes() []httpapi.Raw {
	return []httpapi.Raw{{
		Row: route.Row{
			Method: "POST", Path: "/api/v1/llm/chat/completions", ID: "llmChatCompletion", Tag: "Providers",
			Scopes: []authz.Scope{"runs:create"}, And: []authz.Scope{"agents:read"}, Role: authz.Developer, Outside: true,
			Errors:  []int{400, 404, 422, 501, 502, 503},
			Summary: "Ask a model in the chat-completions shape",
			Doc: "The request goes to the endpoint of the model as it is, but for the model's name, and the answer comes back as it is; there is no run. " +
				"The header X-Model of the answer names the model that was asked, which may be the deployment's fallback. " +
				"A problem document of this route has a member error as well, which is what clients of OpenAI's API read.",
			BodyOf:   reflect.TypeFor[ProxyRequest](),
			AnswerOf: reflect.TypeFor[map[string]any](),
		},
		In:    reflect.TypeFor[modelproxy.Attribution](),
		Fail:  failBoth,
		Serve: p.Completions,
	}}
}

// failBoth renders a problem document that clients of OpenAI's API understand.
func failBoth(w http.ResponseWriter, r *http.Request, status int, e *fault.Error) {
	both := *e
	both.Extra = map[string]any{"error": newEnvelope(e).Error}
	maps.Copy(both.Extra, e.Extra)
	suppressRetry(w, status)
	httpapi.Problem(w, r, status, &both)
}

// Completions answers POST /api/v1/llm/chat/completions.
func (p *ChatProxy) Completions(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	counted, err := httpapi.Params[modelproxy.Attribution](r)
	if err != nil {
		return err
	}
	body, err := httpapi.KeepBody(r)
	if err != nil {
		return err
	}
	ask := modelproxy.CallParams{Source: quota.SourceLLM, AgentID: counted.AgentID}
	f, err := readForward(body, &ask)
	if err != nil {
		return err
	}
	call, err := p.Proxy.Open(r.Context(), who, ask)
	if err != nil {
		return err
	}
	a := proxiedAnswer{w: w, r: r, call: call, stream: f.Stream}
	other, err := call.Forward(r.Context(), f, a.write)
	if other != nil && err == nil {
		err = a.render(other, f.Usage)
	}
	return a.finish(err)
}

// readForward checks a request and finds the parts of it that change on the way.
func readForward(body []byte, ask *modelproxy.CallParams) (f model.Forward, err error) {
	if err := schema.Of[ProxyRequest]().Check(body, false); err != nil {
		return f, err
	}
	f.Body = body
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true)) // of checked bytes nothing fails
	_, _ = dec.ReadToken()
	for dec.PeekKind() == '"' {
		name, _ := dec.ReadToken()
		switch name.String() {
		case "model":
			f.Model = valueSpan(dec)
			ask.Model = unquote(body[f.Model.From:f.Model.To])
		case "stream":
			on, _ := dec.ReadToken()
			f.Stream = on.Kind() == 't'
		case "stream_options":
			f.Options = valueSpan(dec)
			f.Usage = includeUsage(body[f.Options.From:f.Options.To])
		default:
			_ = dec.SkipValue()
		}
	}
	return f, nil
}

// valueSpan passes over a value and says where it stands.
func valueSpan(dec *jsontext.Decoder) model.Span {
	v, _ := dec.ReadValue()
	to := int(dec.InputOffset())
	return model.Span{From: to - len(v), To: to}
}

// proxiedAnswer is the way of one answer to its caller.
type proxiedAnswer struct {
	w      http.ResponseWriter
	r      *http.Request
	call   *modelproxy.Call
	stream bool
	out    *httpapi.Stream // nil: nothing is streamed yet
}

var doneEvent = []byte("data: [DONE]\n\n")

// setModelHeader tells which model answers, where its name can stand in a header.
func (a *proxiedAnswer) setModelHeader() {
	t := a.call.Target()
	name := t.Provider + "/" + t.Model
	if strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
		a.w.Header()["X-Model"] = []string{name}
	}
}

// write gives a piece to the caller. A stream begins with its first piece: until
// then the answer may still be a refusal.
func (a *proxiedAnswer) write(piece []byte) error {
	if !a.stream {
		a.setModelHeader()
		httpapi.JSONBytes(a.w, http.StatusOK, piece)
		return nil
	}
	if a.out == nil {
		a.setModelHeader()
		var err error
		if a.out, err = httpapi.OpenStream(a.r, httpapi.StreamOptions{DeferHeader: true}); err != nil {
			return err
		}
	}
	if bytes.HasSuffix(piece, doneEvent) {
		return a.out.SendLast(route.Frame{Wire: piece})
	}
	return a.out.Send(route.Frame{Wire: piece})
}

// render answers with what the model said where it did not say it in the form
// that was asked for.
func (a *proxiedAnswer) render(resp *model.Response, usage bool) error {
	id, created := ident.New(), time.Now()
	name := a.call.Target()
	c := newModelCompletion(id, name.Provider+"/"+name.Model, created, resp)
	if !a.stream {
		a.setModelHeader()
		return httpapi.JSON(a.w, http.StatusOK, c)
	}
	chunks := newChunker(id, c.Model, created)
	wire, err := chunks.events(c, resp, usage)
	if err != nil {
		return err
	}
	return a.write(wire)
}

// finish closes a stream. What went wrong after its beginning is told in it, in the
// form that OpenAI's clients raise as an error.
func (a *proxiedAnswer) finish(err error) error {
	if a.out == nil {
		return err
	}
	defer a.out.Close()
	if err == nil || a.out.Context().Err() != nil {
		return nil
	}
	a.out.Failed(err)
	_, refusal := httpapi.Classify(err)
	if b, encodeErr := encodeEnvelope(refusal); encodeErr == nil {
		_ = a.out.Send(route.Frame{Data: b}) // a reader that is gone is seen by the stream
	}
	return nil
}
