package teamrun

import (
	"context"
	"errors"
	"slices"
	"testing"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/tool"
	"agentd/internal/teams/group"
	"agentd/internal/teams/team"
)

// A message mentions members by their ids or names; other words after an @ are text.
func TestMentions(t *testing.T) {
	t.Parallel()
	s := &Service{AgentName: func(_ context.Context, _, id string) (string, error) {
		name, ok := map[string]string{"a": "Ann", "b": "Bob Lee", "boss": "Boss"}[id]
		if !ok {
			return "", fault.NewNotFound("agent")
		}
		return name, nil
	}}
	of := &team.Team{SupervisorAgentID: "boss", Workers: []team.Worker{{AgentID: "a"}, {AgentID: "b"}, {AgentID: "gone"}}}
	for message, want := range map[string][]string{
		"hello":                      nil,
		"@ann, and @bob-lee: go":     {"a", "b"},
		"@gone by its id, @a too.":   {"gone", "a"},
		"ann@bob-lee.example":        nil,
		"(@Ann) twice @ANN.":         {"a"},
		"@stranger @bob @":           nil,
		"@boss does not do the work": nil,
	} {
		if got, err := s.mentioned(t.Context(), of, request{message: message}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", message, got, err, want)
		}
	}
	if got, err := s.mentioned(t.Context(), of, request{message: "@boss", chat: true}); err != nil || !slices.Equal(got, []string{"boss"}) {
		t.Errorf("the supervisor in a chat: %q, %v", got, err)
	}
	failing := errors.New("the database is away")
	s.AgentName = func(context.Context, string, string) (string, error) { return "", failing }
	if _, err := s.mentioned(t.Context(), of, request{message: "@ann"}); !errors.Is(err, failing) {
		t.Errorf("%v", err)
	}
}

// oneRun has one run.
type oneRun struct {
	group.Runs
	run run.Run
}

func (o *oneRun) Get(_ context.Context, _, id string) (*run.Run, error) {
	if id != o.run.RunID {
		return nil, fault.NewNotFound("run")
	}
	return &o.run, nil
}

type records struct {
	Store
	record *Record
	over   error
}

func (r records) Get(context.Context, string, string) (*Record, error) {
	if r.record == nil {
		return nil, fault.NewNotFound("team run")
	}
	return r.record, nil
}

func (r records) LockTx(txn.Tx, string, string) error { return r.over }

// A supervisor gives tasks to members of its team only, while its run lasts, and as many
// at a time as the team may do.
func TestDelegateRefuses(t *testing.T) {
	t.Parallel()
	id := "team run"
	record := &Record{TeamRunID: id, Status: Running, Spec: Spec{Supervisor: "boss", Members: []Member{{AgentID: "a"}, {AgentID: "ext", External: []byte(`{}`)}},
		Policies: team.Policies{MaxConcurrency: 2}}}
	ended := *record
	ended.Status = Completed
	for name, c := range map[string]struct {
		of     *string
		record *Record
		caller string
		to     string
		want   string
	}{
		"no_team":      {nil, record, "boss", "a", "This run leads no team. Do the task yourself."},
		"deleted_team": {&id, nil, "boss", "a", "The team was deleted."},
		"over":         {&id, &ended, "boss", "a", "The run of the team is over."},
		"member":       {&id, record, "a", "a", "Only the supervisor of the team may give tasks."},
		"stranger":     {&id, record, "boss", "x", `There is no member "x" in the team. The members are listed in your instructions.`},
		"external":     {&id, record, "boss", "ext", `There is no member "ext" in the team. The members are listed in your instructions.`},
	} {
		d := &Delegate{}
		d.Connect(&Service{Runs: &oneRun{run: run.Run{RunID: "r", TeamRunID: c.of}}, Store: records{record: c.record}}, nil)
		got, err := d.Tools()[0].Run(t.Context(), tool.Call{RunID: "r", AgentID: c.caller, Arguments: `{"agent_id":"` + c.to + `","task":"x"}`})
		if err != nil || !got.Failed || got.Output != tool.Failure(c.want).Output {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}

	working := []string{"1"}
	d := &Delegate{teams: &Service{Store: records{record: record}, WorkingTx: func(_ txn.Tx, _, id string, limit int) ([]string, error) {
		if id != "r" || limit != 2 {
			t.Errorf("the tasks of %s, up to %d", id, limit)
		}
		return working, nil
	}}}
	if err := d.admit(nil, record, "r"); err != nil {
		t.Errorf("a second task: %v", err)
	}
	working = []string{"1", "2"}
	if err := d.admit(nil, record, "r"); !fault.Is(err, fault.Conflict) {
		t.Errorf("a third task: %v", err)
	}
	d.teams.Store = records{over: ErrOver}
	if err := d.admit(nil, record, "r"); !fault.Is(err, fault.Conflict) {
		t.Errorf("a task of a run that is over: %v", err)
	}
}
