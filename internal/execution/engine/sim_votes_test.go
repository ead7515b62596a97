package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/governance/constitution"
	"agentd/internal/governance/constitution/constitutionsql"
	"agentd/internal/governance/inbox"
	"agentd/internal/governance/ledger"
	"agentd/internal/governance/ledger/ledgersql"
	"agentd/internal/governance/voting"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
)

// lawLag is how long a law may be in force before a node that receives nothing from others
// judges by it.
const lawLag = time.Second

// laws are what a world's proposals decide on: rules of the company's constitution.
type laws struct {
	changes int       // odd while people vote and count, so that nothing is known
	since   time.Time // of what is in force
	effect  map[string]policy.Effect
	counted map[string]int // answers that votes were counted, by proposal
}

// republic is a node's part of the votes: the real constitution, and the real votes over
// the node's connection to the database.
type republic struct {
	laws  *constitution.Service
	votes *voting.Voting
}

// found returns a node's part of the votes.
func (n *simNode) found() republic {
	w, writer, began := n.w, simWriter{n}, time.Now()
	book := ledger.New(ledger.Deps{Store: ledgersql.New(w.db), Writer: writer, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler)})
	r := republic{laws: constitution.New(constitution.Deps{
		Store: constitutionsql.New(w.db), Writer: writer, Clock: clock.System{}, Ledger: book,
		Elapsed: func() time.Duration { return time.Since(began) }, Signal: w.lawChanged,
	})}
	deps, _ := resourcetest.Deps(resourcesql.New(w.db), writer)
	r.votes = voting.New(deps, voting.Options{
		Clock: clock.System{}, Ledger: book, Inbox: noInbox{}, Agent: func(txn.Tx, string, string) error { return nil },
		Executors: map[string]voting.Executor{"constitution_amendment": {
			Check: func(schema.Object) []fault.Field { return nil },
			DoTx: func(tx txn.Tx, who authz.Caller, p *voting.Proposal) error {
				change, err := constitution.ParseChange(jsontext.Value(p.Payload))
				if err == nil {
					_, err = r.laws.AmendTx(tx, constitution.Author{TenantID: who.TenantID, UserID: who.UserID, Proposal: p.ID, Caller: who}, *change)
				}
				return err
			},
		}},
	})
	return r
}

type noInbox struct{}

func (noInbox) SendTx(txn.Tx, string, inbox.Item) error { return nil }

// lawChanged reaches all nodes where they are connected.
func (w *world) lawChanged(tenant string) {
	if w.hub == nil {
		return
	}
	w.mu.Lock()
	all := slices.Clone(w.judges)
	w.mu.Unlock()
	for _, laws := range all {
		laws.Drop(tenant)
	}
}

// byLaw judges an act by the laws, and returns how many changes of them were known before.
func (g simGovernor) byLaw(ctx context.Context, r policy.Run, act policy.Act) (ruling policy.Ruling, changes int, err error) {
	w := g.n.w
	w.mu.Lock()
	changes = w.laws.changes
	w.mu.Unlock()
	ruling, err = g.n.republic.laws.Judge(ctx, r, act)
	for _, f := range ruling.Findings {
		w.tally.count("law: " + f.Decision)
	}
	return ruling, changes, err
}

// obeysLaws fails where an act was judged by a law that was no longer in force.
func (w *world) obeysLaws(action string, v verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := &w.laws
	if v.changes != l.changes || l.changes%2 == 1 || w.hub == nil && v.at.Sub(l.since) < lawLag {
		return
	}
	if v.effect < l.effect[action] {
		w.t.Errorf("seed %d: %s was judged as %v at %v, though since %v it is %v", w.seed, action, v.effect, v.at, l.since, l.effect[action])
	}
	if l.effect[action] > policy.Allow {
		w.tally.count("law: held for an act")
	}
}

// operate calls an operation on votes at a node.
func (n *simNode) operate(id, proposal string, body map[string]any) (answer map[string]any, err error) {
	routes := n.republic.votes.Routes()
	r := routes[slices.IndexFunc(routes, func(r route.Route) bool { return r.ID == id })]
	in := reflect.New(r.In)
	if f := in.Elem().FieldByName("ID"); f.IsValid() {
		f.SetString(proposal)
	}
	if f := in.Elem().FieldByName("Body"); f.IsValid() {
		text, _ := json.Marshal(body)
		if f.Kind() == reflect.Slice {
			f.SetBytes(text)
		} else if err := json.Unmarshal(text, f.Addr().Interface()); err != nil {
			return nil, err
		}
	}
	out, err := r.Call(context.Background(), n.w.who, in.Interface())
	if err != nil {
		return nil, err
	}
	text, _ := json.Marshal(out)
	if reply, ok := out.(*route.Reply); ok {
		text = reply.JSON
	}
	return answer, json.Unmarshal(text, &answer)
}

// voters are agents of the company.
var voters = [...]string{ident.New(), ident.New(), ident.New()}

// vote proposes a law or its repeal, or has people vote at the same moment as others count.
func (w *world) vote() {
	open, err := w.api.republic.votes.Open(context.Background(), w.who.TenantID, 10)
	if err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
		return
	}
	if len(open) == 0 || w.chance(30) {
		w.propose()
		return
	}
	p := open[w.rng.IntN(len(open))]
	for _, n := range append(w.alive(), w.api) {
		n.judgeByLaw() // so that it has read the laws before they change
	}
	w.mu.Lock()
	w.laws.changes++
	w.mu.Unlock()
	var all sync.WaitGroup
	for range 3 + w.rng.IntN(4) {
		n, wait := w.any(), time.Duration(w.rng.IntN(4))*time.Millisecond
		id, body := "tallyVotes", map[string]any(nil)
		if w.chance(65) {
			id, body = "castBallot", map[string]any{"agent_id": voters[w.rng.IntN(len(voters))], "vote": [...]string{"yes", "yes", "yes", "no"}[w.rng.IntN(4)]}
		}
		all.Go(func() {
			rest(wait)
			answer, err := n.operate(id, p.ID, body)
			w.tell("%s: %s of %s: %v %v", n.name, id, p.ID, answer["status"], err)
			if w.harmless(err) == nil && err == nil {
				w.tally.count("vote: " + id)
				if id == "tallyVotes" {
					w.mu.Lock()
					w.laws.counted[p.ID]++
					w.mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	w.checkVotes()
	w.mu.Lock()
	w.laws.changes++
	w.laws.since = time.Now()
	w.mu.Unlock()
	w.obeyAtOnce()
}

// obeyAtOnce has every node judge acts at the moment at which a vote is over. Nodes that
// are connected judge by what was voted, without any time in between.
func (w *world) obeyAtOnce() {
	if w.hub == nil {
		return
	}
	for _, n := range append(w.alive(), w.api) {
		w.mu.Lock()
		want := maps.Clone(w.laws.effect)
		w.mu.Unlock()
		for action, got := range n.judgeByLaw() {
			if got != want[action] {
				w.t.Errorf("seed %d: %s judges %s as %v after the vote, want %v", w.seed, n.name, action, got, want[action])
			}
		}
	}
}

// lawfulActions are what proposals are about.
var lawfulActions = [...]string{"tool:act", "tool:pay"}

// judgeByLaw returns what a node makes of acts.
func (n *simNode) judgeByLaw() map[string]policy.Effect {
	all := map[string]policy.Effect{}
	for _, action := range lawfulActions {
		ruling, err := n.republic.laws.Judge(context.Background(), policy.Run{TenantID: n.w.who.TenantID}, policy.Act{Actions: []string{action}})
		if err != nil {
			n.w.t.Errorf("seed %d: %v", n.w.seed, err)
		}
		all[action] = ruling.Effect
	}
	return all
}

func (w *world) propose() {
	action := lawfulActions[w.rng.IntN(len(lawfulActions))]
	change := map[string]any{"action": "remove", "rule_id": "law-" + action, "rationale": "It was voted."}
	w.mu.Lock()
	_, there := w.laws.effect[action]
	w.mu.Unlock()
	if there == w.chance(30) { // else it cannot be carried out
		change["action"], change["rule"] = "add", map[string]any{
			"principle": "Not now.", "action": action, "penalty": [...]string{"block", "require_approval"}[w.rng.IntN(2)],
		}
	}
	n := w.any()
	_, err := n.operate("createVotingProposal", "", map[string]any{
		"title": "A law", "proposal_type": "constitution_amendment", "payload": change,
	})
	if w.harmless(err) == nil && err == nil {
		w.happened("vote: proposed", fmt.Sprint(change["action"], " ", action, " by ", n.name))
	}
}

// checkVotes reads what the votes came to: a proposal is carried out once or not at all,
// its result has all ballots, and the laws are what was carried out.
func (w *world) checkVotes() {
	ctx, tenant := context.Background(), w.who.TenantID
	store := constitutionsql.New(w.db)
	st, err := store.GetState(ctx, tenant)
	if err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
		return
	}
	carriedOut, effect := map[string]int{}, map[string]policy.Effect{}
	for version := int64(1); version <= st.Version; version++ {
		c, err := store.Get(ctx, tenant, version)
		if err != nil {
			w.t.Errorf("seed %d: %v", w.seed, err)
			return
		}
		for _, a := range c.Amendments {
			carriedOut[a.ProposedBy]++
		}
		effect = map[string]policy.Effect{}
		for _, r := range c.Rules {
			effect[r.Action] = map[string]policy.Effect{"block": policy.Deny, "require_approval": policy.Approve}[r.Penalty]
		}
	}
	all, err := w.api.republic.votes.Proposals().List(ctx, tenant, resource.Find{Limit: 500})
	if err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
		return
	}
	w.mu.Lock()
	w.laws.effect = effect
	counted := w.laws.counted
	w.mu.Unlock()
	for _, p := range all {
		want := 0
		if p.Status == "executed" {
			want = 1
		}
		if carriedOut[p.ID] != want || (p.Result != nil && p.Result.Status == "passed") != (want == 1) {
			w.t.Errorf("seed %d: the proposal %s is %s (%+v), and was carried out %d times", w.seed, p.ID, p.Status, p.Result, carriedOut[p.ID])
		}
		if counted[p.ID] > 1 || counted[p.ID] == 1 && p.Result == nil {
			w.t.Errorf("seed %d: the votes on %s were counted %d times: %+v", w.seed, p.ID, counted[p.ID], p.Result)
		}
		if p.Result != nil {
			w.tally.count("vote: " + p.Result.Status)
			w.checkBallots(p)
		}
	}
}

// checkBallots compares the result of a vote with its ballots: none was taken since.
func (w *world) checkBallots(p *voting.Proposal) {
	answer, err := w.api.operate("listBallots", p.ID, nil)
	if err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
		return
	}
	got := map[string]float64{}
	ballots, _ := answer["ballots"].([]any)
	for _, b := range ballots {
		got[b.(map[string]any)["vote"].(string)]++
	}
	r := p.Result
	if r.TotalVotes != int64(len(ballots)) || r.ApproveWeight != got["yes"] || r.RejectWeight != got["no"] {
		w.t.Errorf("seed %d: the result of %s is %+v, of the ballots %v", w.seed, p.ID, r, got)
	}
}
