package voting_test

import (
	"slices"
	"testing"
	"time"

	"agentd/internal/governance/inbox"
	"agentd/internal/governance/voting"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// closeDue closes the votes whose time is up.
func (p *poll) closeDue() {
	p.t.Helper()
	leases, err := p.v.Queue.Claim(p.t.Context(), voting.WorkKind, "node", 10, time.Minute)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, l := range leases {
		if err := p.v.Handle(p.t.Context(), l); err != nil {
			p.t.Fatal(err)
		}
	}
}

// A vote whose time is up is counted by itself, and closed; what was passed and acts on
// something waits for an admin, who is notified.
func TestVotesWhoseTimeIsUp(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		p := newPoll(t, db)
		propose := func(kind string, votes ...string) string {
			t.Helper()
			made, err := p.call(p.admin, "createVotingProposal", "", map[string]any{
				"title": kind, "proposal_type": kind, "deadline_hours": 1, "payload": map[string]any{"agent_id": p.agents[0]},
			})
			if err != nil {
				t.Fatal(err)
			}
			id := made["id"].(string)
			for i, vote := range votes {
				if _, err := p.call(p.admin, "castBallot", id, map[string]any{"vote": vote, "agent_id": p.agents[i]}); err != nil {
					t.Fatal(err)
				}
			}
			return id
		}
		want := map[string]string{
			propose("general"):                  "closed expired",
			propose("general", "yes"):           "closed passed",
			propose("general", "yes", "no"):     "closed rejected",
			propose("agent_termination", "no"):  "closed rejected",
			propose("agent_termination", "yes"): "open",
		}
		vetoed := propose("general", "yes")
		if _, err := p.call(p.admin, "vetoProposal", vetoed, nil); err != nil {
			t.Fatal(err)
		}
		want[vetoed] = "vetoed vetoed"
		p.closeDue()
		state := func(id string) string {
			t.Helper()
			got, err := p.call(p.admin, "getVotingProposal", id, nil)
			if err != nil {
				t.Fatal(err)
			}
			said, _ := got["status"].(string)
			if result, ok := got["result"].(map[string]any); ok {
				said += " " + result["status"].(string)
			}
			return said
		}
		for id, end := range want {
			if got := state(id); got != "open" && end != "vetoed vetoed" {
				t.Errorf("before its time a proposal that will be %s is %s", end, got)
			}
		}
		p.clock.Advance(time.Hour)
		p.closeDue()
		p.closeDue()
		waiting := ""
		for id, end := range want {
			if got := state(id); got != end {
				t.Errorf("%s, want %s", got, end)
			}
			if end == "open" {
				waiting = id
			}
		}
		notified := slices.DeleteFunc(slices.Clone(p.sent), func(i inbox.Item) bool { return i.Type != "domain.governance.proposal_passed" })
		if len(notified) != 1 || notified[0].Key != "proposal_passed/"+waiting || len(p.ended) != 0 {
			t.Errorf("notified of %v, ended %v", notified, p.ended)
		}
		if _, err := p.call(p.admin, "tallyVotes", waiting, nil); err != nil || state(waiting) != "executed passed" || len(p.ended) != 1 {
			t.Errorf("%v: %s", err, state(waiting))
		}
		if n := len(slices.DeleteFunc(slices.Clone(p.log), func(kind string) bool { return kind != "proposal.closed" })); n != 4 {
			t.Errorf("%d entries of the ledger in %v", n, p.log)
		}
	})
}
