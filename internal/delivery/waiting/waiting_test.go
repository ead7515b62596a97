package waiting

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/kernel/resource"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// thing waits since some minutes after noon, and expires some hours later if hours is
// not 0.
func thing(kind, id string, minutes, hours int) Item {
	i := Item{ID: id, Kind: kind, CreatedAt: noon.Add(time.Duration(minutes) * time.Minute)}
	if hours > 0 {
		at := noon.Add(time.Duration(hours) * time.Hour)
		i.ExpiresAt = &at
	}
	return i
}

type decider map[string]error

func (d decider) Decide(_ context.Context, _ authz.Caller, in Decision) error { return d[in.ID] }

func service(approvals, ballots []Item) *Service {
	list := func(all []Item) func(context.Context, string, string, int) ([]Item, error) {
		return func(_ context.Context, _, agent string, limit int) (out []Item, err error) {
			for _, i := range all {
				if (agent == "" || agent == i.AgentID) && len(out) < limit {
					out = append(out, i)
				}
			}
			return out, nil
		}
	}
	access := func(scope authz.Scope) resource.Access { return resource.Access{Scopes: []authz.Scope{scope}} }
	return &Service{
		Clock: clock.NewFake(), Cursors: page.NewCursors(make([]byte, 32)),
		Sources: []Source{
			{Kinds: []string{"approval", "input"}, Readers: access("runs:read"), Deciders: access("runs:create"), List: list(approvals)},
			{Kinds: []string{"ballot"}, Readers: access("agents:read"), Deciders: access("agents:write"), List: list(ballots)},
		},
	}
}

func ids(items []Item) string {
	var all []string
	for _, i := range items {
		all = append(all, i.ID)
	}
	return strings.Join(all, " ")
}

var everybody = authz.Caller{TenantID: "acme", Role: authz.Developer, Scopes: []authz.Scope{"runs:read", "runs:create", "agents:read"}}

// TestOrderOfTheInbox shows what expires first, then what waits longest, of all sources
// in one order and page by page.
func TestOrderOfTheInbox(t *testing.T) {
	t.Parallel()
	s := service(
		[]Item{thing("approval", "late", 0, 5), thing("input", "old", 1, 0), thing("input", "new", 9, 0), thing("approval", "soon", 8, 1)},
		[]Item{thing("ballot", "vote", 5, 3)},
	)
	got, err := s.list(t.Context(), everybody, &listIn{})
	if err != nil {
		t.Fatal(err)
	}
	if all := ids(got.Items); all != "soon vote late old new" || got.HasMore || got.Counts["total"] != 5 || got.Counts["input"] != 2 {
		t.Errorf("%s, %v", all, got.Counts)
	}
	if !got.Items[0].CanDecide || got.Items[1].CanDecide || got.Items[1].Decisions == nil {
		t.Error("who may decide what is wrong")
	}
	var pages []string
	in := &listIn{Limit: "2"}
	for {
		got, err := s.list(t.Context(), everybody, in)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, ids(got.Items))
		if got.Cursor == nil {
			break
		}
		in.Cursor = *got.Cursor
	}
	if all := strings.Join(pages, "|"); all != "soon vote|late old|new" {
		t.Error(all)
	}
}

// TestWhatTheInboxShows narrows it by kind and by agent, and to what a key may read.
func TestWhatTheInboxShows(t *testing.T) {
	t.Parallel()
	about := thing("input", "about", 1, 0)
	about.AgentID = "agent"
	s := service([]Item{about, thing("approval", "other", 2, 0)}, []Item{thing("ballot", "vote", 5, 3)})
	narrow := everybody
	narrow.Scopes = []authz.Scope{"agents:read"}
	for name, c := range map[string]struct {
		who  authz.Caller
		in   listIn
		want string
	}{
		"by kind":  {everybody, listIn{Kind: "ballot,input"}, "vote about"},
		"by agent": {everybody, listIn{AgentID: "agent"}, "about"},
		"by scope": {narrow, listIn{}, "vote"},
		"neither":  {narrow, listIn{Kind: "input"}, ""},
	} {
		got, err := s.list(t.Context(), c.who, &c.in)
		if err != nil || ids(got.Items) != c.want || got.Counts["total"] != len(got.Items) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if _, counted := got.Counts["approval"]; counted && name != "by agent" {
			t.Errorf("%s: counts of what was not looked for: %v", name, got.Counts)
		}
	}
	if _, err := s.list(t.Context(), everybody, &listIn{Kind: "nonsense"}); !fault.Is(err, fault.Malformed) {
		t.Error(err)
	}
	many := make([]Item, 300)
	for i := range many {
		many[i] = thing("approval", fmt.Sprint(i), i, 0)
	}
	got, err := service(many, nil).list(t.Context(), everybody, &listIn{})
	if err != nil || !got.Truncated || got.Counts["approval"] != 200 || len(got.Items) != 50 {
		t.Errorf("%v, %v", got.Counts, err)
	}
}

// TestOutcomesOfDecisions are one for each: a refusal keeps no other from counting.
func TestOutcomesOfDecisions(t *testing.T) {
	t.Parallel()
	s := service(nil, nil)
	s.Decider = decider{"gone": fault.NewNotFound("approval"), "late": fault.WrongState("approval", "expired", "a decision")}
	in := &decideIn{}
	in.Body.Decisions = []Decision{{Kind: "approval", ID: "one"}, {Kind: "approval", ID: "gone"}, {Kind: "approval", ID: "late"}, {Kind: "input", ID: "two"}}
	got, err := s.decideRoute(t.Context(), everybody, in)
	if err != nil || got.Decided != 2 || !got.Outcomes[3].OK || got.Outcomes[1].Code != "NOT_FOUND" || got.Outcomes[2].Detail == "" || got.Outcomes[2].OK {
		t.Errorf("%+v, %v", got, err)
	}
	s.Decider = decider{"one": errors.New("the database is away")}
	if _, err := s.decideRoute(t.Context(), everybody, in); err == nil {
		t.Error("a failure of the server is an outcome")
	}
}
