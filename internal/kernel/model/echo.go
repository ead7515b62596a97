package model

import (
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

// Echo is the client of builtin/echo: rules that answer offline, so that a
// first run works without any model. Every answer says that it is not a model's.
// It calls the tools calculator and current_time if they are offered and the
// message asks for them, so that tool calls can be tried too.
type Echo struct{}

const (
	echoIntro    = "This is agentd's builtin echo, which is no language model. "
	echoLongest  = 2000 // characters of the message that are repeated
	charPerToken = 4
)

func echoTarget() Target { return Target{Provider: Builtin, Model: "echo", Price: &Price{}} }

// Generate implements [Client].
func (Echo) Generate(ctx context.Context, req Request, sink func(Delta)) (Response, error) {
	began := time.Now()
	resp := Response{FinishReason: FinishStop, Model: EchoRef}
	asked, results := lastTurn(req.Messages)
	if call, ok := echoCall(req, asked); ok && len(results) == 0 {
		resp.ToolCalls = []ToolCall{call}
		resp.FinishReason = FinishToolCalls
	} else {
		resp.Text = echoText(asked, results)
	}
	if limit := req.MaxTokens * charPerToken; limit > 0 && utf8.RuneCountInString(resp.Text) > limit {
		resp.Text = text.Prefix(resp.Text, limit)
		resp.FinishReason = FinishLength
	}
	if sink != nil && resp.Text != "" {
		resp.FirstToken = time.Since(began)
		for word := range strings.SplitAfterSeq(resp.Text, " ") {
			if err := ctx.Err(); err != nil {
				return Response{}, err
			}
			sink(Delta{Text: word})
		}
	}
	for i, call := range resp.ToolCalls {
		if sink != nil && req.Detailed {
			resp.FirstToken = time.Since(began)
			sink(Delta{Call: CallDelta{ID: call.ID, Name: call.Name, Index: i, Arguments: call.Arguments}})
		}
	}
	resp.Usage = EstimateOutput(resp)
	resp.Usage.InputTokens = EstimateInput(req)
	return resp, ctx.Err()
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

// echoCall returns the tool call that a message asks for, if that tool is
// offered.
func echoCall(req Request, asked string) (ToolCall, bool) {
	offered := func(name string) bool {
		return slices.ContainsFunc(req.Tools, func(t ToolSpec) bool { return t.Name == name })
	}
	id := fmt.Sprintf("call_echo_%d", len(req.Messages))
	if m := wantsCalculator.FindStringSubmatch(asked); m != nil && offered("calculator") {
		arguments, err := json.Marshal(map[string]string{"expression": strings.TrimRight(strings.TrimSpace(m[1]), ".")})
		return ToolCall{ID: id, Name: "calculator", Arguments: string(arguments)}, err == nil
	}
	if wantsTime.MatchString(asked) && offered("current_time") {
		return ToolCall{ID: id, Name: "current_time", Arguments: "{}"}, true
	}
	return ToolCall{}, false
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
