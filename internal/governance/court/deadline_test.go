package court_test

import (
	"slices"
	"testing"
	"time"

	"agentd/internal/governance/court"
	"agentd/internal/governance/inbox"
)

// look looks at the cases whose time is up.
func (c *company) look() {
	c.t.Helper()
	leases, err := c.court.Queue.Claim(c.t.Context(), court.WorkKind, "node", 10, time.Minute)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, l := range leases {
		if err := c.court.Handle(c.t.Context(), l); err != nil {
			c.t.Fatal(err)
		}
	}
}

// Admins are notified of a ruling that is overdue, once, and an appeal that did not overturn
// the ruling in time is over.
func TestDeadlinesOfCases(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *company) {
		c.register(3, 1, c.judges...)
		overdue := func() int {
			items := slices.DeleteFunc(slices.Clone(c.items), func(i inbox.Item) bool { return i.Type != "domain.governance.case_overdue" })
			entries := slices.DeleteFunc(slices.Clone(c.log), func(kind string) bool { return kind != "case.overdue" })
			if len(items) != len(entries) {
				t.Errorf("%v, %v", items, c.log)
			}
			return len(items)
		}
		open := c.must("fileArbiterCase", "", body{"against_agent_id": c.accused, "reason": "x"})["id"].(string)
		appealed, decided := c.ruled("upheld"), c.ruled("upheld")
		c.must("fileArbiterAppeal", appealed, body{"reason": "x"})
		panel := c.must("fileArbiterAppeal", decided, body{"reason": "x"})["panel_arbiter_ids"].([]any)
		c.must("issueArbiterRuling", appealed, body{"arbiter_id": c.read(appealed).Appeals[0].PanelArbiterIDs[0], "decision": "dismissed"})
		for _, id := range panel[:2] {
			c.must("issueArbiterRuling", decided, body{"arbiter_id": id, "decision": "dismissed"})
		}
		c.look()
		if overdue() != 0 || c.read(appealed).Status != court.Appealed {
			t.Errorf("before its time: %d, %s", overdue(), c.read(appealed).Status)
		}
		c.clock.Advance(73 * time.Hour)
		for range 2 {
			c.look()
		}
		on := c.read(appealed)
		a := on.Appeals[0]
		if on.Status != court.Closed || a.Status != "upheld" || a.ResolvedAt == nil || on.Ruling.Decision != "upheld" || len(a.Votes) != 1 {
			t.Errorf("the appeal is over: %s, %+v", on.Status, a)
		}
		if a := c.read(decided).Appeals[0]; a.Status != "overturned" {
			t.Errorf("what was decided in time is %s", a.Status)
		}
		if on := c.read(open); overdue() != 1 || on.Status != court.InReview {
			t.Errorf("%d cases are overdue, %s", overdue(), on.Status)
		}
		c.must("issueArbiterRuling", open, body{"arbiter_id": *c.read(open).ArbiterID, "decision": "upheld"})
		if got := c.read(open).Status; got != court.Ruled {
			t.Errorf("a late ruling leaves the case %s", got)
		}
	})
}
