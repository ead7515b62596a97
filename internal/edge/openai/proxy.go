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

// ChatProxy forwards chat completions to models: the API of POST
// /v1/chat/completions, but model names a model instead of an agent, and no run is
// started.
type ChatProxy struct {
	Proxy *modelproxy.Proxy
}

// ProxyRequest is the part of the body of POST /api/v1/llm/chat/completions that is
// validated. The whole body goes to the model's endpoint.
type ProxyRequest struct {
	_ struct{} `json:"-" name:"LlmChatRequest"`

	Model         string           `json:"model" required:"true" minLength:"1" maxLength:"300" doc:"<provider>/<model> as listed by GET /api/v1/llm/models, or a model name of the default provider."`
	Messages      []jsontext.Value `json:"messages" required:"true" minItems:"1" maxItems:"10000" doc:"In the format that the endpoint accepts."`
	Stream        *bool            `json:"stream,omitzero" nullable:"true" doc:"true: the answer is a stream of server-sent events. Default: false."`
	StreamOptions schema.Nullable  `json:"stream_options,omitzero" doc:"include_usage true adds a last chunk with the usage."`
}

// Routes returns the route of the proxy.
func (p *ChatProxy) Routes() []httpapi.Raw {
	return []httpapi.Raw{{
		Row: route.Row{
			Method: "POST", Path: "/api/v1/llm/chat/completions", ID: "llmChatCompletion", Tag: "Providers",
			Scopes: []authz.Scope{"runs:create"}, And: []authz.Scope{"agents:read"}, Role: authz.Developer, Outside: true,
			Errors:  []int{400, 404, 422, 501, 502, 503},
			Summary: "Create a chat completion of a model",
			Doc: "Forwards the request unchanged, except for the model's name, to the model's endpoint and returns its answer; no run is started. " +
				"The response header X-Model names the model that answered, which may be the deployment's fallback. " +
				"Problem documents of this route also have the member error, which clients of OpenAI's API read.",
			BodyOf:   reflect.TypeFor[ProxyRequest](),
			AnswerOf: reflect.TypeFor[map[string]any](),
		},
		In:        reflect.TypeFor[modelproxy.Attribution](),
		MayStream: true, Fail: failBoth,
		Serve: p.Completions,
	}}
}

// failBoth renders a problem document with the member that clients of OpenAI's API
// read.
func failBoth(w http.ResponseWriter, r *http.Request, status int, e *fault.Error) {
	both := *e
	both.Extra = map[string]any{"error": newEnvelope(e).Error}
	maps.Copy(both.Extra, e.Extra)
	httpapi.Problem(w, r, status, &both)
}

// Completions serves POST /api/v1/llm/chat/completions.
func (p *ChatProxy) Completions(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	counted, err := httpapi.Params[modelproxy.Attribution](r)
	if err != nil {
		return err
	}
	body, err := httpapi.KeepBody(r)
	if err != nil {
		return err
	}
	params := modelproxy.CallParams{Source: quota.SourceLLM, AgentID: counted.AgentID}
	f, err := readForward(body, &params)
	if err != nil {
		return err
	}
	call, err := p.Proxy.Open(r.Context(), who, params)
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

// readForward validates a request and locates the members that are rewritten.
func readForward(body []byte, params *modelproxy.CallParams) (f model.Forward, err error) {
	if err := schema.Of[ProxyRequest]().Check(body, false); err != nil {
		return f, err
	}
	f.Body = body
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true)) // valid JSON: no read fails
	_, _ = dec.ReadToken()
	for dec.PeekKind() == '"' {
		name, _ := dec.ReadToken()
		switch name.String() {
		case "model":
			f.Model = valueSpan(dec)
			params.Model = unquote(body[f.Model.From:f.Model.To])
		case "stream":
			stream, _ := dec.ReadToken()
			f.Stream = stream.Kind() == 't'
		case "stream_options":
			f.Options = valueSpan(dec)
			f.Usage = includeUsage(body[f.Options.From:f.Options.To])
		default:
			_ = dec.SkipValue()
		}
	}
	return f, nil
}

// valueSpan skips a value and returns its position.
func valueSpan(dec *jsontext.Decoder) model.Span {
	v, _ := dec.ReadValue()
	to := int(dec.InputOffset())
	return model.Span{From: to - len(v), To: to}
}

// proxiedAnswer writes one answer to the client.
type proxiedAnswer struct {
	w      http.ResponseWriter
	r      *http.Request
	call   *modelproxy.Call
	stream bool
	out    *httpapi.Stream // nil until the first piece of a stream
}

var doneEvent = []byte("data: [DONE]\n\n")

// setModelHeader names the model that answers, if its name is valid in a header.
func (a *proxiedAnswer) setModelHeader() {
	t := a.call.Target()
	name := t.Provider + "/" + t.Model
	if strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
		a.w.Header()["X-Model"] = []string{name}
	}
}

// write sends a piece to the client. A stream is opened by its first piece: until
// then the answer may still be an error.
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

// render writes an answer that the endpoint did not send in the requested form,
// streamed or whole.
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

// finish closes a stream. An error after its beginning is sent in it, in the form
// that OpenAI's clients raise as an error.
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
		_ = a.out.Send(route.Frame{Data: b}) // the stream notices a client that is gone
	}
	return nil
}
