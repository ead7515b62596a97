package run

import (
	"bytes"
	"context"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
)

// Names is the port to what things are called. What does not exist has no name.
type Names interface {
	AgentName(ctx context.Context, tenant, id string) (string, error)
	InitiatorName(ctx context.Context, tenant string, by Initiator) (string, error)
}

const previewLength = 200 // characters

// Summarize replaces input and output, of which it needs the beginnings only, by
// previews, and removes the metadata.
func (r *Run) Summarize() {
	r.InputPreview, r.OutputPreview = preview(r.Input, "message"), preview(r.Output, "text")
	r.Input, r.Output, r.Metadata = nil, nil, nil
	if r.Outcome != nil {
		short := *r.Outcome
		short.Verdicts, short.Rubric = nil, nil
		r.Outcome = &short
	}
}

// Summarize replaces input and output by previews.
func (s *Step) Summarize() {
	switch s.Type {
	case StepTool:
		s.Name, s.InputPreview, s.OutputPreview = preview(s.Input, "name"), preview(s.Input, "arguments"), preview(s.Output, "content")
	case StepLLM:
		s.Name, s.OutputPreview = preview(s.Output, "model"), preview(s.Output, "text")
	}
	s.Input, s.Output = nil, nil
}

// preview returns the beginning of a text member of an object, which may be cut
// off. It returns "" where there is none.
func preview(object []byte, member string) string {
	d := jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return ""
	}
	for {
		name, err := d.ReadToken()
		if err != nil || name.Kind() != '"' {
			return ""
		}
		if name.String() == member {
			break
		}
		if d.SkipValue() != nil {
			return ""
		}
	}
	if value, err := d.ReadToken(); err == nil {
		if value.Kind() != '"' {
			return ""
		}
		return beginning(value.String())
	}
	rest := bytes.TrimLeft(object[d.InputOffset():], ": \t\r\n")
	if len(rest) == 0 || rest[0] != '"' {
		return ""
	}
	for cut := len(rest); cut > max(1, len(rest)-12); cut-- { // it may end within an escape, of which a pair is 12 long
		whole := append(bytes.Clone(rest[:cut]), '"')
		if text, err := jsontext.AppendUnquote(nil, whole); err == nil {
			return beginning(string(text))
		}
	}
	return ""
}

// StepName returns the name of the tool or the model of a step, of which it needs
// the beginning of a tool's input, or the end of a model's output. It returns ""
// where there is none.
func StepName(t StepType, part string) string {
	if t == StepTool {
		return preview([]byte(part), "name")
	}
	const member = `"model":` // the last of LLMOutput
	if i := strings.LastIndex(part, member); i >= 0 && strings.HasSuffix(part, `"}`) {
		return preview([]byte("{"+part[i:]), "model")
	}
	return ""
}

func beginning(text string) string {
	if utf8.RuneCountInString(text) <= previewLength {
		return text
	}
	return string([]rune(text)[:previewLength])
}

// addNames adds to summaries what the agents and the initiators of runs are
// called, and the tool calls that wait for approval.
func (s families) addNames(ctx context.Context, tenant string, runs []Run) error {
	agents, initiators := map[string]string{}, map[Initiator]string{}
	for i := range runs {
		r := &runs[i]
		name, err := s.agentName(ctx, tenant, r.AgentID, agents)
		if err != nil {
			return err
		}
		r.AgentName = name
		if by := r.StartedBy; by != nil && s.Names != nil {
			if _, known := initiators[*by]; !known {
				if initiators[*by], err = s.Names.InitiatorName(ctx, tenant, *by); err != nil && !fault.Is(err, fault.NotFound) {
					return err
				}
			}
			by.Name = initiators[*by]
		}
		if r.Status == AwaitingApproval {
			if err := s.addPending(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s families) addPending(ctx context.Context, r *Run) error {
	all, err := s.Runs.ListApprovalsByRun(ctx, nil, r.TenantID, r.RunID)
	for _, a := range all {
		if a.Status == ApprovalPending {
			a.Arguments = nil
			r.PendingApprovals = append(r.PendingApprovals, a.pending())
		}
	}
	return err
}

// agentName returns the name of an agent, and keeps it in known. A deleted agent
// has none.
func (s families) agentName(ctx context.Context, tenant, id string, known map[string]string) (string, error) {
	name, ok := known[id]
	if ok || s.Names == nil {
		return name, nil
	}
	name, err := s.Names.AgentName(ctx, tenant, id)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return "", err
	}
	known[id] = name
	return name, nil
}

// summarize removes the arguments of approvals, and adds what the agents are called.
func (s families) summarize(ctx context.Context, tenant string, all []Approval) (err error) {
	agents := map[string]string{}
	for i := range all {
		a := &all[i]
		a.Arguments, a.EditedArguments = nil, nil
		if a.AgentName, err = s.agentName(ctx, tenant, a.AgentID, agents); err != nil {
			return err
		}
	}
	return nil
}
