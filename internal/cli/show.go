package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/text"
	"agentd/internal/client"
)

// shower shows a run to a person as it happens: the model's text on stdout,
// everything else beside it on stderr.
//
// Text is shown on a terminal as it comes. Elsewhere it is held back until its
// step is committed, because a server that dies begins the step again: whoever
// reads the output gets each word once.
type shower struct {
	inv   *invocation
	runID string
	hints bool // say how to answer, as nobody is asked

	held     strings.Builder // text of a step that is not committed, where stdout is no terminal
	unproven bool            // text of a step that is not committed was shown
	started  bool            // some text was shown
	midLine  bool            // the text shown so far does not end with a newline
	lostText bool            // some text was lost on the way
}

// detail is what is read from the data of any event.
type detail struct {
	Text       string         `json:"text"`
	Name       string         `json:"name"`
	ToolName   string         `json:"tool_name"`
	Type       string         `json:"type"`
	Arguments  jsontext.Value `json:"arguments"`
	Status     string         `json:"status"`
	Output     jsontext.Value `json:"output"`
	DurationMS float64        `json:"duration_ms"`
	AfterMS    float64        `json:"after_ms"`
	Question   string         `json:"question"`
	Reason     string         `json:"reason"`
	RuleID     string         `json:"rule_id"`
	Decision   string         `json:"decision"`
	Message    string         `json:"message"`
	Attempt    int            `json:"attempt"`
	ApprovalID string         `json:"approval_id"`
	InputID    string         `json:"input_id"`
	URL        string         `json:"authorization_url"`
	Iteration  int            `json:"iteration"`
	Score      float64        `json:"score"`
	MinScore   float64        `json:"min_score"`
	Reached    bool           `json:"reached"`
	Criteria   []criterion    `json:"criteria"`
}

// criterion is what a judge says of a result by one criterion.
type criterion struct {
	Name   string  `json:"name"`
	Score  float64 `json:"score"`
	Reason string  `json:"reason"`
}

// verdict shows what a judge says.
func (f *shower) verdict(d *detail) {
	what := "not reached yet"
	if d.Reached {
		what = "reached"
	}
	f.line("= judged %d: %.2f of %.2f, %s", d.Iteration, d.Score, d.MinScore, what)
	for _, c := range d.Criteria {
		f.line("  %s: %.2f %s", c.Name, c.Score, c.Reason)
	}
}

func (f *shower) show(frame client.Frame) {
	var d detail
	if json.Unmarshal(frame.Data, &d) != nil {
		return // an event of a shape that this version does not know
	}
	switch frame.Name {
	case "llm.chunk":
		f.text(d.Text)
	case "step.completed":
		f.committed()
	case "step.draft_void":
		f.void()
	case "run.resumed":
		if d.Attempt > 0 { // its worker died
			f.void()
		}
	case "gap":
		f.lostText = true
	case "done":
		f.end(client.Run{Output: d.Output}.Text())
	default:
		f.event(frame.Name, d)
	}
}

// event shows an event that is not the model's text.
func (f *shower) event(name string, d detail) {
	switch name {
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
		f.line("… waits for approval of %s %s", cmp.Or(d.ToolName, d.Name), brief(d.Arguments))
		f.hint("runs approve %s", "runs reject %s")
	case "approval.resolved":
		f.line("… %s", cmp.Or(d.Status, "decided"))
	case "input.requested":
		f.line("… asks: %s", d.Question)
		f.hint("runs respond %s \"ANSWER\"")
	case "step.retrying":
		f.line("… waits for the model: %s The next attempt is in %s.", d.Reason, formatDuration(milliseconds(d.AfterMS)))
	case "run.paused":
		if d.Reason != "input" {
			f.line("… paused")
		}
	case "run.auth_required":
		f.line("… waits until somebody authorizes %s: %s", cmp.Or(d.Name, "a server"), d.URL)
	case "outcome.judged":
		f.verdict(&d)
	case "guardrail.violated":
		f.line("! guardrail %s", d.Name)
	case "governance.decided":
		f.line("! rule %s: %s (%s)", d.RuleID, d.Decision, d.Message)
	}
}

// hint says with which commands the run is answered.
func (f *shower) hint(commands ...string) {
	if !f.hints {
		return
	}
	for i, command := range commands {
		commands[i] = f.inv.deps.Program + " " + fmt.Sprintf(command, f.runID)
	}
	f.inv.note("  Answer with:  %s", strings.Join(commands, "  or  "))
}

// text takes a piece of the model's answer.
func (f *shower) text(s string) {
	if !f.inv.stdoutTerminal {
		f.held.WriteString(s)
		return
	}
	f.print(clean(s))
	f.unproven = f.unproven || s != ""
}

// committed is called when a step is stored, and its text with it.
func (f *shower) committed() {
	f.print(f.held.String())
	f.held.Reset()
	f.unproven = false
}

// void is called when the text of the step under way will come again.
func (f *shower) void() {
	f.held.Reset()
	if f.unproven {
		f.line("The server was interrupted; the answer starts again:")
		f.unproven = false
	}
}

func (f *shower) print(s string) {
	if s == "" {
		return
	}
	fmt.Fprint(f.inv.stdout, s)
	f.started, f.midLine = true, s[len(s)-1] != '\n'
}

// line shows what is not the model's text, on a line of its own.
func (f *shower) line(format string, args ...any) {
	f.endLine()
	f.inv.note("%s", oneLine(fmt.Sprintf(format, args...)))
}

// end shows the whole answer where it was not seen piece by piece.
func (f *shower) end(answer string) {
	f.committed()
	f.endLine()
	if f.lostText && f.started && answer != "" {
		f.inv.note("Some text was lost on the way; this is the whole answer:")
		f.started = false
	}
	if !f.started {
		if f.inv.stdoutTerminal {
			answer = clean(answer)
		}
		f.print(answer)
		f.endLine()
	}
}

func (f *shower) endLine() {
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
