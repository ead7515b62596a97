package voting_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/governance/inbox"
	"agentd/internal/governance/ledger"
	"agentd/internal/governance/voting"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

var errExecutor = errors.New("the agent is gone")

// poll is a company that votes.
type poll struct {
	t      *testing.T
	v      *voting.Voting
	clock  *clock.Fake
	admin  authz.Caller
	agents []string

	mu    sync.Mutex
	log   []string
	sent  []inbox.Item
	fails bool     // carrying out fails
	ended []string // agents that were terminated
}

func newPoll(t *testing.T, db *sqldb.DB) *poll {
	t.Helper()
	deps, _ := resourcetest.Deps(resourcesql.New(db), db)
	p := &poll{
		t: t, clock: clock.NewFake(), agents: []string{ident.New(), ident.New()},
		admin: authz.Caller{TenantID: ident.New(), UserID: "ada", Role: authz.Admin},
	}
	p.v = voting.New(deps, voting.Options{
		Clock: p.clock, Ledger: p, Inbox: p, Queue: worksql.New(db, p.clock, func(string) {}),
		Agent: func(_ txn.Tx, tenant, id string) error {
			if tenant == p.admin.TenantID && slices.Contains(p.agents, id) {
				return nil
			}
			return fault.NewNotFound("agent")
		},
		Executors: map[string]voting.Executor{"agent_termination": {
			Check: voting.NeedsAgent,
			DoTx: func(tx txn.Tx, _ authz.Caller, proposal *voting.Proposal) error {
				if p.fails {
					return errExecutor
				}
				tx.AfterCommit(func() { p.ended = append(p.ended, voting.AgentOf(proposal.Payload)) })
				return nil
			},
		}},
	})
	return p
}

// AppendTx implements ledger.Appender.
func (p *poll) AppendTx(tx txn.Tx, _ string, e ledger.Entry) error {
	tx.AfterCommit(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.log = append(p.log, e.Kind)
	})
	return nil
}

// SendTx implements inbox.Sender.
func (p *poll) SendTx(tx txn.Tx, tenant string, item inbox.Item) error {
	if tenant == p.admin.TenantID {
		tx.AfterCommit(func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.sent = append(p.sent, item)
		})
	}
	return nil
}

// call calls an operation, and returns its answer as JSON.
func (p *poll) call(who authz.Caller, id, proposal string, body map[string]any) (map[string]any, error) {
	p.t.Helper()
	routes := p.v.Routes()
	r := routes[slices.IndexFunc(routes, func(r route.Route) bool { return r.ID == id })]
	in := reflect.New(r.In)
	if f := in.Elem().FieldByName("ID"); f.IsValid() {
		f.SetString(proposal)
	}
	if f := in.Elem().FieldByName("Body"); f.IsValid() && body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			p.t.Fatal(err)
		}
		if f.Kind() == reflect.Slice {
			f.SetBytes(text)
		} else if err := json.Unmarshal(text, f.Addr().Interface()); err != nil {
			p.t.Fatal(err)
		}
	}
	out, err := r.Call(p.t.Context(), who, in.Interface())
	if err != nil {
		return nil, err
	}
	text, _ := json.Marshal(out)
	if reply, ok := out.(*route.Reply); ok {
		text = reply.JSON
	}
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil {
		p.t.Fatalf("%s answers %s", id, text)
	}
	return answer, nil
}

func (p *poll) must(who authz.Caller, id, proposal string, body map[string]any) map[string]any {
	p.t.Helper()
	answer, err := p.call(who, id, proposal, body)
	if err != nil {
		p.t.Fatalf("%s: %v", id, err)
	}
	return answer
}

func (p *poll) propose(body map[string]any) string {
	p.t.Helper()
	all := map[string]any{"title": "Something", "proposal_type": "general"}
	maps.Copy(all, body)
	return p.must(p.admin, "createVotingProposal", "", all)["id"].(string)
}

func (p *poll) status(id string) string {
	p.t.Helper()
	return p.must(p.admin, "getVotingProposal", id, nil)["status"].(string)
}

func (p *poll) member(name string) authz.Caller {
	return authz.Caller{TenantID: p.admin.TenantID, UserID: name, Role: authz.Developer}
}

func TestProposalsAreAnnounced(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		p := newPoll(t, db)
		proposal := p.v.Proposals().Blank()
		proposal.Title, proposal.Description, proposal.Type = "End it", "It pays twice", "agent_termination"
		proposal.Payload = schema.Object(`{"agent_id":"` + p.agents[0] + `"}`)
		if err := p.v.Proposals().Create(t.Context(), p.admin, proposal); err != nil {
			t.Fatal(err)
		}
		if _, err := p.call(p.admin, "tallyVotes", proposal.ID, nil); err != nil {
			t.Fatal(err)
		}
		want := []inbox.Item{{
			Type: "domain.governance.proposal_opened", Title: "A proposal waits for votes: End it", Message: "It pays twice",
			Path: "/api/v1/governance/voting/proposals/" + proposal.ID, AgentID: p.agents[0], Key: "proposal/" + proposal.ID,
		}}
		if !slices.Equal(p.sent, want) {
			t.Errorf("sent %+v, want %+v", p.sent, want)
		}
	})
}

func TestProposals(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		agent := ident.New()
		resourcetest.Kind(t, resourcesql.New(db), db, func(deps resource.Deps) *resource.Store[voting.Proposal] {
			return voting.New(deps, voting.Options{
				Clock: clock.System{}, Ledger: newPoll(t, db), Inbox: newPoll(t, db),
				Agent: func(_ txn.Tx, _, id string) error { return nil },
				Executors: map[string]voting.Executor{"agent_termination": {
					Check: voting.NeedsAgent, DoTx: func(txn.Tx, authz.Caller, *voting.Proposal) error { return nil },
				}},
			}).Proposals()
		}, resourcetest.Samples{
			Minimal: `{"title":"Speak French %d","proposal_type":"general"}`,
			Defaults: map[string]string{
				"status": `"open"`, "quorum": `0.6`, "deadline_hours": `48`, "result": `null`, "payload": `{}`, "proposer_agent_id": `null`,
			},
			Full: `{"title":"End it %d","description":"why","proposal_type":"agent_termination","payload":{"agent_id":"` + agent + `"},
				"quorum":0.75,"deadline_hours":0.5,"proposer_agent_id":"` + agent + `"}`,
			Refused: []resourcetest.Refused{
				{Body: `{}`, Fields: []string{"title", "proposal_type"}},
				{Body: `{"title":" ","proposal_type":"general"}`, Fields: []string{"title"}},
				{Body: `{"title":"x","proposal_type":"agent_termination"}`, Fields: []string{"payload.agent_id"}},
				{Body: `{"title":"x","proposal_type":"permission_change"}`, Fields: []string{"proposal_type"}},
				{
					Body:   `{"title":"x","proposal_type":"war","quorum":0.5,"deadline_hours":0,"payload":[]}`,
					Fields: []string{"proposal_type", "quorum", "deadline_hours", "payload"},
				},
			},
		})
	})
}

// The outcome follows from the ballots.
func TestTally(t *testing.T) {
	t.Parallel()
	type ballot struct {
		voter, vote string
		weight      float64
	}
	for name, test := range map[string]struct {
		ballots []ballot
		late    bool
		want    string
	}{
		"no one":             {nil, false, "rejected"},
		"no one in time":     {nil, true, "expired"},
		"one yes":            {[]ballot{{"ada", "yes", 1}}, false, "passed"},
		"only abstentions":   {[]ballot{{"ada", "abstain", 1}}, false, "rejected"},
		"a tie":              {[]ballot{{"ada", "yes", 1}, {"bob", "no", 1}}, false, "rejected"},
		"exactly the quorum": {[]ballot{{"ada", "approve", 0.3}, {"bob", "reject", 0.2}}, false, "passed"},
		"below the quorum":   {[]ballot{{"ada", "yes", 59}, {"bob", "no", 41}}, false, "rejected"},
		"yes of no weight":   {[]ballot{{"ada", "yes", 0}}, false, "rejected"},
		"a changed mind":     {[]ballot{{"ada", "yes", 1}, {"ada", "no", 1}}, false, "rejected"},
		"weight":             {[]ballot{{"ada", "yes", 3}, {"bob", "no", 1}, {"eve", "no", 1}}, false, "passed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
				p := newPoll(t, db)
				id := p.propose(nil)
				for _, b := range test.ballots {
					who := p.member(b.voter)
					who.Role = authz.Admin // whose weights count
					p.must(who, "castBallot", id, map[string]any{"vote": b.vote, "weight": b.weight})
				}
				if test.late {
					p.clock.Advance(48 * time.Hour)
				}
				got := p.must(p.admin, "tallyVotes", id, nil)
				if got["status"] != test.want || got["outcome"] != test.want || p.status(id) != "closed" {
					t.Errorf("%v, and it is %s", got, p.status(id))
				}
			})
		})
	}
}

func TestBallots(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		p := newPoll(t, db)
		id := p.propose(nil)
		bob := p.member("bob")
		if got := p.must(bob, "castBallot", id, map[string]any{"vote": "yes", "weight": 100, "reasoning": "why not", "signature": "x"}); got["weight"] != 1.0 ||
			got["agent_id"] != "bob" || got["reasoning"] != "why not" || got["signature"] != "x" || got["proposal_id"] != id {
			t.Errorf("a member's ballot: %v", got)
		}
		if got := p.must(bob, "castBallot", id, map[string]any{"vote": "reject", "agent_id": p.agents[0]}); got["agent_id"] != p.agents[0] || got["vote"] != "no" {
			t.Errorf("an agent's ballot: %v", got)
		}
		if _, err := p.call(bob, "castBallot", id, map[string]any{"vote": "yes", "agent_id": ident.New()}); !fault.Is(err, fault.NotFound) {
			t.Errorf("in the name of a stranger: %v", err)
		}
		if got := p.must(bob, "listBallots", id, nil)["ballots"].([]any); len(got) != 2 {
			t.Errorf("ballots: %v", got)
		}
		if _, err := p.call(bob, "listBallots", ident.New(), nil); !fault.Is(err, fault.NotFound) {
			t.Errorf("of no proposal: %v", err)
		}
		stranger := authz.Caller{TenantID: ident.New(), UserID: "eve", Role: authz.Owner}
		for _, act := range []string{"castBallot", "tallyVotes", "vetoProposal", "getVotingProposal"} {
			if _, err := p.call(stranger, act, id, map[string]any{"vote": "yes"}); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s by a stranger: %v", act, err)
			}
		}
		p.clock.Advance(48 * time.Hour)
		if _, err := p.call(bob, "castBallot", id, map[string]any{"vote": "yes"}); !fault.Is(err, fault.Conflict) {
			t.Errorf("too late: %v", err)
		}
		p.must(p.admin, "tallyVotes", id, nil)
		for _, act := range []string{"castBallot", "tallyVotes"} {
			if _, err := p.call(p.admin, act, id, map[string]any{"vote": "yes"}); !fault.Is(err, fault.Conflict) {
				t.Errorf("%s after the end: %v", act, err)
			}
		}
	})
}

// A passed proposal is carried out with its tally, or both are not done.
func TestPassedProposalsAreCarriedOut(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		p := newPoll(t, db)
		end := map[string]any{"proposal_type": "agent_termination", "payload": map[string]any{"agent_id": p.agents[0]}}
		id := p.propose(end)
		p.must(p.member("bob"), "castBallot", id, map[string]any{"vote": "yes"})
		p.fails = true
		if _, err := p.call(p.admin, "tallyVotes", id, nil); !errors.Is(err, errExecutor) || p.status(id) != "open" {
			t.Errorf("%v, and it is %s", err, p.status(id))
		}
		p.fails = false
		if err := p.v.CheckPassed(t.Context(), p.admin.TenantID, id); !fault.Is(err, fault.Conflict) {
			t.Errorf("it is not passed: %v", err)
		}
		if got := p.must(p.admin, "tallyVotes", id, nil); got["status"] != "passed" || p.status(id) != "executed" || !slices.Equal(p.ended, p.agents[:1]) {
			t.Errorf("%v, %s, ended %v", got, p.status(id), p.ended)
		}
		if _, err := p.call(p.admin, "vetoProposal", id, nil); !fault.Is(err, fault.Conflict) {
			t.Errorf("a veto of what is done: %v", err)
		}
		talk := p.propose(nil)
		p.must(p.member("bob"), "castBallot", talk, map[string]any{"vote": "yes"})
		p.must(p.admin, "tallyVotes", talk, nil)
		for proposal, want := range map[string]fault.Kind{id: fault.Conflict, talk: 0, ident.New(): fault.NotFound} {
			if err := p.v.CheckPassed(t.Context(), p.admin.TenantID, proposal); want == 0 && err != nil || want != 0 && !fault.Is(err, want) {
				t.Errorf("an amendment by a proposal: %v", err)
			}
		}
		rejected := p.propose(end)
		p.must(p.member("bob"), "castBallot", rejected, map[string]any{"vote": "no"})
		if p.must(p.admin, "tallyVotes", rejected, nil); len(p.ended) != 1 {
			t.Errorf("a rejected proposal is carried out: %v", p.ended)
		}
		stranger := map[string]any{"title": "x", "proposal_type": "agent_termination", "payload": map[string]any{"agent_id": ident.New()}}
		if _, err := p.call(p.admin, "createVotingProposal", "", stranger); !fault.Is(err, fault.NotFound) {
			t.Errorf("about an agent of others: %v", err)
		}
	})
}

func TestVeto(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		p := newPoll(t, db)
		id := p.propose(nil)
		p.must(p.member("bob"), "castBallot", id, map[string]any{"vote": "yes"})
		for range 2 { // it may be repeated
			if got := p.must(p.admin, "vetoProposal", id, map[string]any{"reason": "not now"}); got["ok"] != true || p.status(id) != "vetoed" {
				t.Errorf("%v, %s", got, p.status(id))
			}
		}
		for _, act := range []string{"castBallot", "tallyVotes"} {
			if _, err := p.call(p.admin, act, id, map[string]any{"vote": "yes"}); !fault.Is(err, fault.Conflict) {
				t.Errorf("%s after a veto: %v", act, err)
			}
		}
		if got := strings.Join(p.log, " "); got != "proposal.created ballot.cast proposal.vetoed" {
			t.Errorf("the ledger has %s", got)
		}
	})
}

// Ballots that arrive while the votes are counted are in the count, or refused.
func TestVotesAtTheMomentOfTheTally(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		p := newPoll(t, db)
		id := p.propose(nil)
		var all sync.WaitGroup
		taken := make([]bool, 12)
		for i := range taken {
			all.Go(func() {
				_, err := p.call(p.member(fmt.Sprint("voter ", i)), "castBallot", id, map[string]any{"vote": "yes"})
				if taken[i] = err == nil; err != nil && !fault.Is(err, fault.Conflict) {
					t.Error(err)
				}
			})
		}
		var result map[string]any
		all.Go(func() {
			var err error
			if result, err = p.call(p.admin, "tallyVotes", id, nil); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		want := 0.0
		for _, ok := range taken {
			if ok {
				want++
			}
		}
		if result["total_votes"] != want {
			t.Errorf("%v votes are counted of %v that were taken", result["total_votes"], want)
		}
	})
}

func TestAgentOf(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{`{}`: "", `{"agent_id":"a"}`: "a", `{"agent_id":1}`: "", ``: "", `{"agent_id":null}`: ""} {
		if got := voting.AgentOf(schema.Object(payload)); got != want {
			t.Errorf("%s: %q", cmp.Or(payload, "nothing"), got)
		}
	}
}
