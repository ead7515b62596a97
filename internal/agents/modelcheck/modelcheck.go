// Package modelcheck tries what a model can do, by a few small calls: whether its endpoint
// answers and takes the key, and whether the model streams, calls tools, reads images,
// answers in a given form and thinks.
package modelcheck

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/modelproxy"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

const (
	// timeout bounds a whole test.
	timeout = 60 * time.Second
	// maxTokens bounds each answer, and thinkTokens the one that thinks: models that
	// think do so within it.
	maxTokens   = 1024
	thinkTokens = 4096
)

// Statuses of checks.
const (
	ok      = "ok"
	failed  = "failed"  // without it the model cannot be used
	missing = "missing" // the model cannot do it, or its price is not known
	skipped = "skipped" // nothing is known, because an earlier check failed
)

// Models admits calls of models; *modelproxy.Proxy.
type Models interface {
	Open(ctx context.Context, who authz.Caller, params modelproxy.CallParams) (*modelproxy.Call, error)
}

// Service tests models. It is safe for concurrent use.
type Service struct{ Models Models }

type testIn struct {
	Body struct {
		_ struct{} `json:"-" name:"LlmModelTestCreate"`

		Model string `json:"model" required:"true" minLength:"1" maxLength:"300" doc:"<provider>/<model>, or a model of the default provider."`
	}
}

// Tested is what a test found.
type Tested struct {
	_ struct{} `json:"-" name:"LlmModelTest"`

	Model  string  `json:"model" required:"true" doc:"As it was named."`
	Usable bool    `json:"usable" required:"true" doc:"Whether no check failed."`
	Checks []Check `json:"checks" required:"true" doc:"In the order in which they were made."`
}

// Check is one thing that was tried.
type Check struct {
	_ struct{} `json:"-" name:"LlmModelCheck"`

	Check  string `json:"check" required:"true" enum:"reachable,key,model,streaming,tools,images,structured_output,thinking,price"`
	Status string `json:"status" required:"true" enum:"ok,failed,missing,skipped" doc:"failed: the model cannot be used; missing: it can, but not for this; skipped: not tried, because of a failure before."`
	Detail string `json:"detail" required:"true" doc:"What was found, as a sentence."`
}

// Routes returns the route that tests a model.
func (s *Service) Routes() []route.Route {
	return []route.Route{route.Action(route.Row{
		Method: "POST", Path: "/api/v1/llm/models/test", ID: "testLlmModel", Tag: "Providers", Summary: "Test a model",
		Doc: "Makes up to five small calls, of at most a minute and 8,192 tokens of output together, which count as calls of the model proxy. " +
			"The status is 200 whatever is found.",
		Role: authz.Developer, Scopes: []authz.Scope{"runs:create", "agents:read"}, Errors: []int{400}, Outside: true,
	}, s.test)}
}

func (s *Service) test(ctx context.Context, who authz.Caller, in *testIn) (Tested, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	t := &trial{ctx: ctx, open: func() (*modelproxy.Call, error) {
		return s.Models.Open(ctx, who, modelproxy.CallParams{Model: in.Body.Model, Source: quota.SourceLLM, NoFallback: true})
	}}
	call, err := t.open()
	if err != nil {
		return Tested{}, err
	}
	target := call.Target()
	checks, found := t.basics(call)
	if found {
		checks = append(checks, t.abilities()...)
	} else {
		for _, a := range abilities {
			checks = append(checks, Check{Check: a.name, Status: skipped, Detail: "Not tried."})
		}
	}
	price := Check{Check: "price", Status: missing, Detail: "The price is not known: costs are null."}
	if p := target.Price; p != nil {
		price.Status, price.Detail = ok, fmt.Sprintf("$%g input and $%g output per million tokens.", p.Input, p.Output)
	}
	out := Tested{Model: in.Body.Model, Usable: true, Checks: append(checks, price)}
	for _, c := range checks {
		out.Usable = out.Usable && c.Status != failed
	}
	return out, nil
}

// trial is the calls of one test.
type trial struct {
	ctx  context.Context
	open func() (*modelproxy.Call, error)
}

func ask(text string) model.Request {
	return model.Request{MaxTokens: maxTokens, Messages: []model.Message{{Role: model.User, Text: text}}}
}

// basics makes a streamed call, whose failure says what is wrong. It reports whether the
// model answered.
func (t *trial) basics(call *modelproxy.Call) ([]Check, bool) {
	began, pieces := time.Now(), 0
	_, err := call.Generate(t.ctx, ask("Count from one to ten, in words."), func(d model.Delta) {
		if d.Text != "" || d.Thinking != "" {
			pieces++
		}
	})
	reachable, key, named := Check{Check: "reachable"}, Check{Check: "key"}, Check{Check: "model"}
	streaming := Check{Check: "streaming", Status: skipped, Detail: "Not tried."}
	rest := func(status, detail string, checks ...*Check) {
		for _, c := range checks {
			c.Status, c.Detail = status, detail
		}
	}
	e, known := errors.AsType[*model.Error](err)
	answered := "The endpoint answers."
	switch {
	case err == nil:
		rest(ok, fmt.Sprintf("The endpoint answered in %d ms.", time.Since(began).Milliseconds()), &reachable)
		rest(ok, "It is accepted, or none is needed.", &key)
		rest(ok, "It answers.", &named)
		rest(ok, fmt.Sprintf("The answer came in %d pieces.", pieces), &streaming)
		if pieces < 2 {
			rest(missing, "The answer came in one piece.", &streaming)
		}
	case !known || e.Status == 0:
		rest(failed, said(err), &reachable)
		rest(skipped, "Not tried.", &key, &named)
	case e.Code == "provider_auth_failed":
		rest(ok, answered, &reachable)
		rest(failed, said(err), &key)
		rest(skipped, "Not tried.", &named)
	default:
		rest(ok, answered, &reachable)
		rest(ok, "It is accepted, or none is needed.", &key)
		rest(failed, said(err), &named)
	}
	return []Check{reachable, key, named, streaming}, err == nil
}

// said returns what an error says to callers.
func said(err error) string {
	if e, ok := errors.AsType[*model.Error](err); ok {
		return e.Detail
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "The endpoint did not answer in time."
	}
	if f := fault.From(err); f != nil && len(f.Fields) == 1 {
		return f.Fields[0].Message // without the name of a field that the caller did not write
	} else if f != nil && f.Detail != "" {
		return f.Detail
	}
	return "The model could not be called."
}

// ability is something that a model may be able to do.
type ability struct {
	name    string
	request func() model.Request
	// judge returns what an answer shows, and whether the model is able.
	judge func(model.Response) (string, bool)
}

const onePixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

var abilities = []ability{
	{"tools", func() model.Request {
		r := ask("What is the weather in Oslo? Call the tool.")
		r.Tools = []model.ToolSpec{{
			Name: "weather", Description: "The weather of a place.",
			Parameters: jsontext.Value(`{"type":"object","properties":{"place":{"type":"string"}},"required":["place"]}`),
		}}
		return r
	}, func(r model.Response) (string, bool) {
		if len(r.ToolCalls) == 0 {
			return "It answered without calling the tool.", false
		}
		return "It called the tool.", true
	}},
	{"images", func() model.Request {
		r := ask("")
		part, _ := json.Marshal(map[string]any{"type": "image_url", "image_url": map[string]string{"url": onePixel}}) // of texts
		r.Messages[0] = model.Message{Role: model.User, Parts: []jsontext.Value{model.TextPart("Describe this image in one word."), part}}
		return r
	}, func(model.Response) (string, bool) { return "It takes images.", true }},
	{"structured_output", func() model.Request {
		const form = `{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object",` +
			`"properties":{"capital":{"type":"string"}},"required":["capital"],"additionalProperties":false}}}`
		r := ask("What is the capital of Norway?")
		r.Extra = map[string]jsontext.Value{"response_format": jsontext.Value(form)}
		return r
	}, func(r model.Response) (string, bool) {
		var answer struct {
			Capital string `json:"capital"`
		}
		if json.Unmarshal([]byte(strings.TrimSpace(r.Text)), &answer) != nil || answer.Capital == "" {
			return "Its answer does not have the form that was requested; agentd repairs such answers once.", false
		}
		return "Its answer has the form that was requested.", true
	}},
	{"thinking", func() model.Request {
		r := ask("What is 17 times 23?")
		r.MaxTokens = thinkTokens
		r.Extra = map[string]jsontext.Value{"reasoning_effort": jsontext.Value(`"low"`)}
		return r
	}, func(r model.Response) (string, bool) {
		if r.Thinking == "" && r.Usage.ThinkingTokens == 0 && r.OpaqueSize() == 0 {
			return "It answered without thinking.", false
		}
		return "It thinks before it answers.", true
	}},
}

// abilities tries all abilities at once.
func (t *trial) abilities() []Check {
	checks := make([]Check, len(abilities))
	var all sync.WaitGroup
	for i, a := range abilities {
		all.Go(func() { checks[i] = t.try(a) })
	}
	all.Wait()
	return checks
}

func (t *trial) try(a ability) Check {
	c := Check{Check: a.name, Status: missing}
	call, err := t.open()
	var resp model.Response
	if err == nil {
		resp, err = call.Generate(t.ctx, a.request(), nil)
	}
	if err != nil {
		c.Detail = said(err)
		return c
	}
	var able bool
	if c.Detail, able = a.judge(resp); able {
		c.Status = ok
	}
	return c
}
