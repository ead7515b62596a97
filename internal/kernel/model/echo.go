package model

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/text"
)

// Echo is the client of builtin/echo: rules that answer offline, so that
// everything can be tried without any model. Its answers say that they are not a
// model's. It calls the tools calculator and current_time if they are offered and the
// message asks for them, any tool in a line "call <tool> {json}", and does what the
// other directives of a message ask (see readDirectives). Where the request has a
// response_format it answers with JSON that fits it.
type Echo struct{}

const (
	echoIntro    = "This is agentd's builtin echo, which is no language model. "
	echoLongest  = 2000 // characters of the message that are repeated
	charPerToken = 4
	slowPause    = 100 * time.Millisecond // before each word of a slow answer
)

func echoTarget() Target { return Target{Provider: Builtin, Model: "echo", Price: &Price{}} }

// Generate implements [Client].
func (Echo) Generate(ctx context.Context, req Request, sink func(Delta)) (Response, error) {
	s := echoSink{ctx: ctx, began: time.Now(), send: sink}
	resp := Response{FinishReason: FinishStop, Model: EchoRef}
	asked, results := lastTurn(req.Messages)
	d := readDirectives(asked)
	call, problem := echoCall(req, d, len(results))
	switch {
	case d.fail != 0:
		return Response{}, echoFailure(d.fail)
	case call != nil:
		resp.ToolCalls, resp.FinishReason = []ToolCall{*call}, FinishToolCalls
	default:
		resp.Text = echoAnswer(req, d, problem, results)
	}
	resp.Thinking = d.think
	if limit := req.MaxTokens * charPerToken; limit > 0 && utf8.RuneCountInString(resp.Text) > limit {
		resp.Text = text.Prefix(resp.Text, limit)
		resp.FinishReason = FinishLength
	}
	pause := time.Duration(0)
	if d.slow {
		pause = slowPause
	}
	for _, piece := range []struct {
		all  string
		make func(string) Delta
	}{
		{resp.Thinking, func(w string) Delta { return Delta{Thinking: w} }}, {resp.Text, func(w string) Delta { return Delta{Text: w} }},
	} {
		if err := s.words(piece.all, pause, piece.make); err != nil {
			return Response{}, err
		}
	}
	for i, call := range resp.ToolCalls {
		if req.Detailed {
			s.piece(Delta{Call: CallDelta{ID: call.ID, Name: call.Name, Index: i, Arguments: call.Arguments}})
		}
	}
	resp.FirstToken = s.first
	resp.Usage = EstimateOutput(resp)
	resp.Usage.InputTokens = EstimateInput(req)
	return resp, ctx.Err()
}

// echoSink sends the pieces of an answer.
type echoSink struct {
	ctx   context.Context
	began time.Time
	send  func(Delta) // nil: the answer is not streamed
	first time.Duration
}

func (s *echoSink) piece(d Delta) {
	if s.send == nil {
		return
	}
	if s.first == 0 {
		s.first = time.Since(s.began)
	}
	s.send(d)
}

// words sends a text word by word, with a pause before each.
func (s *echoSink) words(all string, pause time.Duration, piece func(string) Delta) error {
	if all == "" {
		return nil
	}
	for word := range strings.SplitAfterSeq(all, " ") {
		if pause > 0 {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-s.ctx.Done():
				timer.Stop()
			}
		}
		if err := s.ctx.Err(); err != nil {
			return err
		}
		s.piece(piece(word))
	}
	return nil
}

// echoFailure is the error of a message that asks for one. Those of overloaded
// endpoints pass.
func echoFailure(status int) *Error {
	passing := status == 408 || status == 429 || status >= 500
	code := "model_error"
	if status == 429 {
		code = "model_rate_limited"
	}
	return &Error{
		Code: code, Status: status, Passing: passing,
		Detail: fmt.Sprintf("builtin/echo fails with status %d, because the message asked for it.", status),
	}
}

// lastTurn returns the last message of the user, and the tool results after it.
func lastTurn(messages []Message) (asked string, results []Message) {
	for _, m := range slices.Backward(messages) {
		switch m.Role {
		case Tool:
			results = append(results, m)
		case User:
			slices.Reverse(results)
			return Plain(&m), results
		}
	}
	return "", nil
}

// term is a piece of an expression that the calculator may be asked for.
const term = `(?:[-+*/%^().,\d\s]|(?:sqrt|abs|min|max|round|floor|ceil|log|exp|sin|cos|pi|e)\b)`

var (
	wantsCalculator = regexp.MustCompile(`(?i)\b(?:calculate|compute|what is|what's)\s+(` + term + `*\d` + term + `*)`)
	wantsTime       = regexp.MustCompile(`(?i)\b(?:what time|current time|time is it|what's the time|the time now)\b`)
)

// echoCall returns the tool call that a message asks for, nil if it asks for none or
// has the results of all. problem is why a call that it asks for is not made.
func echoCall(req Request, d directives, results int) (call *ToolCall, problem string) {
	offered := func(name string) bool {
		return slices.ContainsFunc(req.Tools, func(t ToolSpec) bool { return t.Name == name })
	}
	id := fmt.Sprintf("call_echo_%d", len(req.Messages))
	if results < len(d.calls) {
		next := d.calls[results]
		if offered(next.name) {
			return &ToolCall{ID: id, Name: next.name, Arguments: next.arguments}, ""
		}
		return nil, fmt.Sprintf("There is no tool %s here; there are: %s.", next.name, toolNames(req.Tools))
	}
	if results > 0 || d.say != nil {
		return nil, ""
	}
	if m := wantsCalculator.FindStringSubmatch(d.message); m != nil && offered("calculator") {
		arguments, err := json.Marshal(map[string]string{"expression": strings.TrimRight(strings.TrimSpace(m[1]), ".")})
		if err == nil {
			return &ToolCall{ID: id, Name: "calculator", Arguments: string(arguments)}, ""
		}
	}
	if wantsTime.MatchString(d.message) && offered("current_time") {
		return &ToolCall{ID: id, Name: "current_time", Arguments: "{}"}, ""
	}
	return nil, ""
}

func toolNames(tools []ToolSpec) string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	return text.Truncate(cmp.Or(strings.Join(names, ", "), "none"), echoLongest)
}

// echoAnswer returns the text of an answer.
func echoAnswer(req Request, d directives, problem string, results []Message) string {
	if d.say != nil {
		return text.Prefix(*d.say, echoLongest)
	}
	if instance, ok := echoInstance(req.Extra["response_format"], d.message); ok {
		return instance
	}
	if problem != "" {
		return echoIntro + problem
	}
	return echoText(d.message, results)
}

func echoText(asked string, results []Message) string {
	var b strings.Builder
	b.WriteString(echoIntro)
	for _, r := range results {
		name := r.Name
		if name == "" {
			name = "tool"
		}
		fmt.Fprintf(&b, "The %s answered: %s ", name, text.Prefix(Plain(&r), echoLongest))
	}
	switch {
	case len(results) > 0:
	case asked == "":
		b.WriteString("There was no message to repeat.")
	default:
		b.WriteString("You said: " + text.Prefix(asked, echoLongest))
	}
	return strings.TrimSpace(b.String())
}
