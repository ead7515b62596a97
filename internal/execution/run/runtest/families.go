package runtest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

func (s suite) summaries(t *testing.T) {
	tenant := ident.New()
	short, long := Sample(tenant, ident.New()), Sample(tenant, ident.New())
	long.Input = schema.Object(`{"instructions":"first","message":"` + strings.Repeat(`\u0000ü`, 2000) + `"}`)
	short.Output = schema.Nullable(`{"text":"done"}`)
	s.create(t, short)
	s.create(t, long)
	got, err := s.ListSummaries(t.Context(), tenant, run.Filter{}, page.Window{Limit: 10})
	if err != nil || len(got) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	for i, want := range []struct{ in, out string }{{strings.Repeat("\x00ü", 100), ""}, {"hé\x00llo \"there\"", "done"}} {
		r := got[i]
		if r.InputPreview != want.in || r.OutputPreview != want.out || r.Input != nil || r.Output != nil || r.Metadata != nil {
			t.Errorf("summary %d is %+v", i, r)
		}
	}
	if got[1].RunID != short.RunID || got[1].AgentID != short.AgentID || !got[1].CreatedAt.Equal(at) {
		t.Errorf("%+v", got[1])
	}
}

func (s suite) families(t *testing.T) {
	tenant, agent := ident.New(), ident.New()
	root := Sample(tenant, agent)
	root.SetInitiator(run.Initiator{Type: run.ByKey, ID: "k"})
	root.RootRunID, root.ParentRunID, root.ParentStepID = nil, nil, nil
	child := Sample(tenant, agent)
	child.SetInitiator(run.Initiator{Type: run.ByRun, ID: root.RunID})
	child.RootRunID = &root.RunID
	grandchild := Sample(tenant, agent)
	grandchild.SetInitiator(run.Initiator{Type: run.ByRun, ID: child.RunID})
	grandchild.RootRunID, grandchild.ParentStepID = &root.RunID, nil
	for _, r := range []*run.Record{root, child, grandchild} {
		s.create(t, r)
	}
	find := func(tenant string, f run.Filter) (ids []string) {
		found, err := s.List(t.Context(), tenant, f, page.Window{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range found {
			ids = append(ids, r.RunID)
		}
		return ids
	}
	for _, c := range []struct {
		filter run.Filter
		want   []string
	}{
		{run.Filter{ParentRunID: root.RunID}, []string{child.RunID}},
		{run.Filter{RootRunID: root.RunID}, []string{grandchild.RunID, child.RunID}},
		{run.Filter{StartedBy: "key:k"}, []string{root.RunID}},
		{run.Filter{StartedBy: "run:" + child.RunID}, []string{grandchild.RunID}},
	} {
		if diff := cmp.Diff(c.want, find(tenant, c.filter)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.filter, diff)
		}
		if got := find(ident.New(), c.filter); len(got) > 0 {
			t.Errorf("%+v finds %v of another tenant", c.filter, got)
		}
	}
	children, err := s.ListChildren(t.Context(), tenant, root.RunID, 10)
	if diff := cmp.Diff([]run.Child{{RunID: child.RunID, StepID: *child.ParentStepID}}, children); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	family, err := s.ListFamily(t.Context(), tenant, root.RunID, 10)
	if err != nil || len(family) != 2 || family[0].RunID != child.RunID || *family[1].ParentRunID != child.RunID || len(family[1].Pending) != 1 {
		t.Errorf("the family is %+v, %v", family, err)
	}
	s.outlines(t, tenant, root.RunID)
	s.unfinished(t, tenant, root.RunID, child)
}

// unfinished reads, in a transaction, which children of a run have not ended. child
// is one that a step started.
func (s suite) unfinished(t *testing.T, tenant, parent string, child *run.Record) {
	t.Helper()
	read := func(tenant string) (n int, ids []string) {
		s.write(t, func(tx txn.Tx) (err error) {
			if n, err = s.CountUnfinishedTx(tx, tenant, []string{parent, child.RunID, ident.New()}); err != nil {
				return err
			}
			ids, err = s.ListUnfinishedChildrenTx(tx, tenant, parent, 10)
			return err
		})
		return n, ids
	}
	if n, ids := read(tenant); n != 2 || len(ids) != 1 || ids[0] != child.RunID {
		t.Errorf("%d runs have not ended, of children %v", n, ids)
	}
	if n, ids := read(ident.New()); n != 0 || len(ids) != 0 {
		t.Errorf("%d runs of another tenant, %v", n, ids)
	}
	child.Status = run.Completed
	s.write(t, s.Update(tenant, child.RunID, run.UpdateOf(child)))
	if n, ids := read(tenant); n != 1 || len(ids) != 0 {
		t.Errorf("%d runs have not ended after one has, of children %v", n, ids)
	}
}

func (s suite) outlines(t *testing.T, tenant, id string) {
	t.Helper()
	for i, st := range []run.Step{
		{Type: run.StepLLM, Output: schema.Nullable(`{"text":"\u0000","model":"m-1"}`)},
		{Type: run.StepTool, Input: schema.Nullable(`{"tool_call_id":"c","name":"calculator","arguments":"{}"}`)},
		{Type: run.StepMemory},
	} {
		st.Seq, st.StepID, st.RunID, st.TenantID = int64(i)+1, ident.New(), id, tenant
		st.Status, st.StartedAt, st.CompletedAt = run.StepCompleted, at, &at
		s.write(t, s.AppendStep(&st))
	}
	got, err := s.ListOutlines(t.Context(), tenant, []string{id, ident.New()}, 10)
	if err != nil || len(got) != 3 {
		t.Fatalf("%v, %v", got, err)
	}
	for i, want := range []string{"m-1", "calculator", ""} {
		if got[i].Name != want || got[i].Seq != int64(i)+1 || got[i].RunID != id || got[i].Input != nil || got[i].Output != nil {
			t.Errorf("outline %d is %+v", i, got[i])
		}
	}
	if got, err := s.ListOutlines(t.Context(), tenant, []string{id}, 2); err != nil || len(got) != 2 {
		t.Errorf("two of three: %v, %v", got, err)
	}
}
