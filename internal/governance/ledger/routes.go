package ledger

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/hashchain"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
)

const (
	defaultCount = 50
	maxCount     = 200
	maxWindow    = 1000 // entries between from and to
	exportPage   = 500
)

// Record is an entry as it is shown.
type Record struct {
	_ struct{} `json:"-" name:"GovernanceLedgerEntry"`

	ID             string        `json:"id" format:"uuid" required:"true"`
	Seq            int64         `json:"seq" required:"true" doc:"Its place in the chain, from 1, without gaps."`
	Kind           string        `json:"kind" required:"true" doc:"Area and past participle, such as constitution.amended."`
	ActorAgentID   *string       `json:"actor_agent_id" required:"true" nullable:"true" doc:"The agent who did it."`
	ActorUserID    *string       `json:"actor_user_id" required:"true" nullable:"true" doc:"The person who did it."`
	SubjectAgentID *string       `json:"subject_agent_id" required:"true" nullable:"true" doc:"The agent that it is about."`
	RuleID         *string       `json:"rule_id" required:"true" nullable:"true"`
	RunID          *string       `json:"run_id" required:"true" nullable:"true"`
	Details        schema.Object `json:"details" required:"true"`
	At             time.Time     `json:"ts" required:"true"`
	PrevHash       string        `json:"prev_hash" required:"true" doc:"Hash of the entry before it; empty in the first."`
	Hash           string        `json:"hash" required:"true" doc:"SHA-256, in hex, over the canonical JSON (RFC 8785) of the entry without this member."`
}

// RecordOf returns an entry as it is shown.
func RecordOf(e *hashchain.Entry) Record {
	return Record{
		ID: e.ID, Seq: e.Seq, Kind: e.Kind, ActorAgentID: optional(e.ActorAgentID), ActorUserID: optional(e.ActorUserID),
		SubjectAgentID: optional(e.SubjectAgentID), RuleID: optional(e.RuleID), RunID: optional(e.RunID),
		Details: schema.Object(e.Details), At: e.At, PrevHash: e.PrevHash, Hash: e.Hash,
	}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// End is the end of a ledger.
type End struct {
	_ struct{} `json:"-" name:"GovernanceLedgerHead"`

	Seq  int64  `json:"seq" required:"true" doc:"Number of the last entry; 0 while there is none."`
	Hash string `json:"hash" required:"true" doc:"Hash of the last entry; empty while there is none."`
}

// Page is a part of a ledger, newest first.
type Page struct {
	_ struct{} `json:"-" name:"GovernanceLedger"`

	Entries     []Record `json:"entries" required:"true"`
	Head        End      `json:"head" required:"true"`
	Total       int      `json:"total" required:"true" doc:"How many entries this answer has."`
	TenantTotal int64    `json:"tenant_total" required:"true" doc:"How many entries the ledger has."`
}

// Keys are the public keys whose signatures of heads are valid.
type Keys struct {
	_ struct{} `json:"-" name:"GovernanceLedgerKeys"`

	Algorithm  string   `json:"algorithm" required:"true" doc:"Always Ed25519."`
	PublicKeys []string `json:"public_keys" required:"true" doc:"In base64; the first one signs now."`
}

type listIn struct {
	Filter

	Count string `query:"count" doc:"Entries at most, 1 to 200; 50 if it is left out. Ignored where from and to are sent."`
	From  string `query:"from" maxLength:"20" doc:"Number of the first entry; sent together with to."`
	To    string `query:"to" maxLength:"20" doc:"Number of the last entry; at most 1000 entries are between from and to."`
}

type rangeIn struct {
	From string `query:"from" maxLength:"20" doc:"Number of the first entry to check; left out: 1."`
	To   string `query:"to" maxLength:"20" doc:"Number of the last entry to check; left out: the last."`
}

// Routes lists the operations on the ledger.
func (l *Ledger) Routes() []route.Route {
	row := func(path, id, summary, doc string, refusals ...int) route.Row {
		return route.Row{
			Method: "GET", Path: "/api/v1/governance/ledger" + path, ID: id, Tag: "Governance", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{"agents:read"}, Errors: refusals,
		}
	}
	export := row("/export", "exportGovernanceLedger", "Export the ledger",
		"Lines of JSON: every entry, oldest first, and then one line with the head. `agentd ledger verify` checks the file without a server.")
	export.Reads = "ledger.exported"
	return []route.Route{
		l.immutableRoute(),
		route.Action(row("", "getGovernanceLedger", "Read the ledger",
			"What was decided under the rules of the company, newest first. Entries are written together with what they record "+
				"and are chained by their hashes.", 400),
			l.list),
		route.Action(row("/verify", "verifyGovernanceLedger", "Verify the ledger",
			"Computes the hashes of the chain again. An entry that was changed, removed or moved is named. Both bounds are optional; "+
				"without them the whole chain is checked.", 400),
			l.verify),
		route.Action(export, l.export),
		route.Action(row("/keys", "getGovernanceLedgerKeys", "Get the keys that sign the ledger",
			"The head of an export is signed. Keep these keys elsewhere: they show later that an export comes from this service."), l.keys),
	}
}

// number reads a bound; 0 if it is left out.
func number(name, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, fault.New(fault.Malformed, "INVALID_QUERY", "The parameter %s is %q and must be the number of an entry, from 1.", name, text)
	}
	return n, nil
}

func bounds(from, to string) (int64, int64, error) {
	first, err := number("from", from)
	if err != nil {
		return 0, 0, err
	}
	last, err := number("to", to)
	if err == nil && first > 0 && last > 0 && last < first {
		err = fault.New(fault.Malformed, "INVALID_QUERY", "The parameter from is %d and must not be greater than to, which is %d.", first, last)
	}
	return first, last, err
}

func (l *Ledger) list(ctx context.Context, who authz.Caller, in *listIn) (*Page, error) {
	from, to, err := bounds(in.From, in.To)
	if err != nil {
		return nil, err
	}
	w := Window{Limit: page.Limit(in.Count, defaultCount, maxCount)}
	switch {
	case from > 0 && to > 0:
		if to-from >= maxWindow {
			return nil, fault.New(fault.Malformed, "INVALID_QUERY", "From entry %d to entry %d are more than %d entries.", from, to, maxWindow)
		}
		w = Window{From: from, To: to, Limit: maxWindow}
	case from > 0 || to > 0:
		return nil, fault.New(fault.Malformed, "INVALID_QUERY", "The parameters from and to are sent together or not at all.")
	}
	if err := l.Seal(ctx, who.TenantID); err != nil {
		return nil, err
	}
	head, err := l.Store.GetHead(ctx, who.TenantID)
	if err != nil {
		return nil, err
	}
	entries, err := l.Store.List(ctx, who.TenantID, in.Filter, w)
	if err != nil {
		return nil, err
	}
	p := &Page{Entries: make([]Record, len(entries)), Head: End{Seq: head.Seq, Hash: head.Hash}, Total: len(entries), TenantTotal: head.Seq}
	for i := range entries {
		p.Entries[i] = RecordOf(&entries[i])
	}
	return p, nil
}

func (l *Ledger) verify(ctx context.Context, who authz.Caller, in *rangeIn) (*Verdict, error) {
	from, to, err := bounds(in.From, in.To)
	if err != nil {
		return nil, err
	}
	return l.Verify(ctx, who.TenantID, from, to)
}

// headLine is the last line of an export.
type headLine struct {
	Head any `json:"head"`
}

func (l *Ledger) export(ctx context.Context, who authz.Caller, _ *struct{}) (route.Lines, error) {
	if err := l.Seal(ctx, who.TenantID); err != nil {
		return nil, err
	}
	head, err := l.Store.GetHead(ctx, who.TenantID)
	if err != nil {
		return nil, err
	}
	return func(yield func([]byte, error) bool) {
		for from := int64(1); from <= head.Seq; {
			entries, err := l.Store.List(ctx, who.TenantID, Filter{}, Window{From: from, To: head.Seq, Limit: exportPage, Ascending: true})
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range entries {
				if !yield(entries[i].AppendJSON(nil), nil) {
					return
				}
			}
			if len(entries) == 0 {
				break // entries at the end are missing; the head shows it
			}
			from = entries[len(entries)-1].Seq + 1
		}
		line := headLine{head}
		if l.Key != nil {
			line.Head = hashchain.Sign(l.Key, who.TenantID, head)
		}
		yield(json.Marshal(line))
	}, nil
}

func (l *Ledger) keys(context.Context, authz.Caller, *struct{}) (*Keys, error) {
	k := &Keys{Algorithm: "Ed25519", PublicKeys: []string{}}
	for _, key := range append([]ed25519.PrivateKey{l.Key}, l.Former...) {
		if key != nil {
			k.PublicKeys = append(k.PublicKeys, base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey)))
		}
	}
	return k, nil
}
