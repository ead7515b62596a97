package cli

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/text"
	"agentd/internal/client"
)

// follower shows a run to a person as it happens: the model's text on stdout,
// everything else beside it on stderr.
type follower struct {
	inv      *invocation
	started  bool // some text was shown
	midLine  bool // the text shown so far does not end with a newline
	lostText bool // some text was lost on the way
}

// detail is what the follower reads from the data of any event.
type detail struct {
	Text       string         `json:"text"`
	Name       string         `json:"name"`
	ToolName   string         `json:"tool_name"`
	Arguments  jsontext.Value `json:"arguments"`
	Status     string         `json:"status"`
	Output     jsontext.Value `json:"output"`
	DurationMS float64        `json:"duration_ms"`
	Question   string         `json:"question"`
	Decision   string         `json:"decision"`
	AfterMS    float64        `json:"after_ms"`
	Reason     string         `json:"reason"`
}

func (f *follower) show(frame client.Frame) {
	var d detail
	if json.Unmarshal(frame.Data, &d) != nil {
		return // an event of a shape that this version does not know
	}
	switch frame.Name {
	case "llm.chunk":
		f.text(d.Text)
	case "tool.call":
		f.line("→ %s %s", d.Name, brief(d.Arguments))
	case "tool.result":
		line := fmt.Sprintf("← %s %s", d.Name, brief(d.Output))
		if d.Status != "" && d.Status != "done" {
			line = fmt.Sprintf("← %s (%s) %s", d.Name, d.Status, brief(d.Output))
		}
		if d.DurationMS > 0 {
			line += " (" + formatDuration(milliseconds(d.DurationMS)) + ")"
		}
		f.line("%s", line)
	case "approval.requested":
		f.line("… waits for approval of %s %s", firstNonEmpty(d.ToolName, d.Name), brief(d.Arguments))
	case "approval.resolved":
		f.line("… %s", firstNonEmpty(d.Decision, d.Status, "decided"))
	case "input.requested":
		f.line("… asks: %s", d.Question)
	case "step.retrying":
		f.line("… waits for the model: %s The next attempt is in %s.", d.Reason, formatDuration(milliseconds(d.AfterMS)))
	case "step.draft_void":
		if f.midLine {
			f.line("! the answer broke off and is made again")
		}
	case "run.paused":
		f.line("… paused")
	case "run.auth_required":
		f.line("… waits for authorization")
	case "guardrail.violated":
		f.line("! guardrail %s", d.Name)
	case "gap":
		f.lostText = true
	case "done":
		f.end(client.Run{Output: d.Output}.Text())
	}
}

// text shows a piece of the model's answer.
func (f *follower) text(s string) {
	if f.inv.stdoutTerminal {
		s = clean(s)
	}
	if s == "" {
		return
	}
	fmt.Fprint(f.inv.stdout, s)
	f.started, f.midLine = true, s[len(s)-1] != '\n'
}

// line shows what is not the model's text, on a line of its own.
func (f *follower) line(format string, args ...any) {
	f.endLine()
	f.inv.note("%s", oneLine(fmt.Sprintf(format, args...)))
}

// end shows the whole answer where it was not seen piece by piece.
func (f *follower) end(answer string) {
	f.endLine()
	if f.lostText && f.started && answer != "" {
		f.inv.note("Some text was lost on the way; this is the whole answer:")
		f.started = false
	}
	if !f.started {
		f.text(answer)
		f.endLine()
	}
}

func (f *follower) endLine() {
	if f.midLine {
		fmt.Fprintln(f.inv.stdout)
		f.midLine = false
	}
}

// brief shows a JSON value in little room; a string without its quotes.
func brief(v jsontext.Value) string {
	var s string
	if json.Unmarshal(v, &s) != nil {
		s = string(v)
	}
	return text.Truncate(oneLine(s), 160)
}

// firstNonEmpty returns the first text that is not empty.
func firstNonEmpty(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}
