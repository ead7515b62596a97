package group

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestResult(t *testing.T) {
	t.Parallel()
	broke := "The model broke."
	for name, c := range map[string]struct {
		run            run.Run
		text, sentence string
	}{
		"completed":   {run.Run{Status: run.Completed, Output: schema.Nullable(`{"text":"done"}`)}, "done", ""},
		"failed":      {run.Run{Status: run.Failed, Error: &broke}, "", broke},
		"unexplained": {run.Run{Status: run.TimedOut}, "", "Its run ended as timeout."},
	} {
		if text, sentence, err := Result(&c.run); err != nil || text != c.text || sentence != c.sentence {
			t.Errorf("%s: %q, %q, %v", name, text, sentence, err)
		}
	}
	if _, _, err := Result(&run.Run{Status: run.Completed, Output: schema.Nullable(`[`)}); err == nil {
		t.Error("an output that is no JSON has a result")
	}
}

type ruler struct {
	policy.Anarchy
	ruling policy.Ruling
}

func (r ruler) Judge(context.Context, policy.Run, policy.Act) (policy.Ruling, error) {
	return r.ruling, nil
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		governor policy.Governor
		record   bool
		kind     fault.Kind
		refused  bool
	}{
		"none":    {nil, false, 0, false},
		"anarchy": {policy.Anarchy{}, false, 0, false},
		"blocks":  {ruler{ruling: policy.Ruling{Effect: policy.Deny, Findings: []policy.Finding{{}}}}, true, fault.Forbidden, true},
		"warns":   {ruler{ruling: policy.Ruling{Findings: []policy.Finding{{}}}}, true, 0, false},
	} {
		record, err := Judge(t.Context(), c.governor, policy.Run{}, Given{AgentID: "a", Message: "go"})
		if (record != nil) != c.record || (err != nil) != c.refused || c.refused && !fault.Is(err, c.kind) {
			t.Errorf("%s: %v, %v", name, record != nil, err)
		}
	}
}

// A stream begins with what comes first, says that a cursor is none of its own, and
// ends with what comes last.
func TestStream(t *testing.T) {
	t.Parallel()
	s := Stream{
		ID: "g", Field: "group_id", Over: true, Cursor: "nonsense", Now: func() time.Time { return time.Unix(0, 0).UTC() },
		First: func(send func(string, any) bool) bool { return send("connected", map[string]any{}) },
		Done:  func(send func(string, any) bool) bool { return send("over", map[string]any{"n": 1}) },
	}
	var got []string
	for f, err := range s.Frames(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, f.Name+" "+string(f.Data))
		if f.Name != "" && !jsontext.Value(f.Data).IsValid() {
			t.Errorf("no JSON: %s", f.Data)
		}
	}
	want := `connected {"event":"connected","timestamp":"1970-01-01T00:00:00Z","group_id":"g"}
gap {"event":"gap","timestamp":"1970-01-01T00:00:00Z","group_id":"g","dropped":0}
over {"event":"over","timestamp":"1970-01-01T00:00:00Z","group_id":"g","n":1}
 [DONE]`
	if strings.Join(got, "\n") != want {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}
