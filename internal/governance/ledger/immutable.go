package ledger

import (
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/hashchain"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
)

const (
	defaultEvents = 100
	maxEvents     = 500
	// readEvents bounds the entries that are read for an answer.
	readEvents = 100_000
	// sealDisorder is how far the times of neighbours in a chain can be out of order: a
	// node that died may have left entries unsealed for a minute.
	sealDisorder = 5 * time.Minute
)

// Event is an entry as the operator sees it.
type Event struct {
	_ struct{} `json:"-" name:"ImmutableAuditEvent"`

	EventID       string        `json:"event_id" format:"uuid" required:"true"`
	Seq           int64         `json:"seq" required:"true" doc:"Its place in the chain of the company, from 1."`
	At            time.Time     `json:"timestamp" required:"true"`
	TenantID      string        `json:"tenant_id" required:"true"`
	ActorAgentID  *string       `json:"actor_agent_id" required:"true" nullable:"true" doc:"The agent who did it."`
	ActorUserID   *string       `json:"actor_user_id" required:"true" nullable:"true" doc:"The person who did it."`
	Type          string        `json:"event_type" required:"true" doc:"Area and past participle, such as constitution.amended."`
	Details       schema.Object `json:"details" required:"true"`
	TargetAgentID string        `json:"target_agent_id,omitzero"`
	TargetRunID   string        `json:"target_run_id,omitzero"`
	PrevHash      string        `json:"prev_hmac" required:"true" doc:"Hash of the entry before it; empty in the first."`
	Hash          string        `json:"hmac" required:"true" doc:"SHA-256, in hex, over the canonical JSON of the entry in the ledger."`
}

// Events is a part of a company's chain, newest first.
type Events struct {
	_ struct{} `json:"-" name:"ImmutableAudit"`

	Entries   []Event  `json:"entries" required:"true"`
	Events    []Event  `json:"events" required:"true" deprecated:"true" doc:"Same as entries."`
	Total     int      `json:"total" required:"true" doc:"How many this answer has."`
	Truncated bool     `json:"truncated" required:"true" doc:"Older entries may match: ask again with an earlier to."`
	Chain     *Verdict `json:"chain,omitzero" doc:"With verify: whether the whole chain is as it was written."`
}

type eventsIn struct {
	TenantID string    `query:"tenant_id" maxLength:"100" doc:"The company. Required."`
	AgentID  string    `query:"agent_id" maxLength:"100" doc:"Only entries about this agent."`
	Event    string    `query:"event" maxLength:"200" doc:"Only entries of this kind, such as constitution.amended."`
	From     time.Time `query:"from" doc:"Only what was done at this date-time or later."`
	To       time.Time `query:"to" doc:"Only what was done before this date-time."`
	Limit    string    `query:"limit" doc:"Entries at most, 1 to 500; 100 if it is left out."`
	Verify   bool      `query:"verify" doc:"true: compute the whole chain again."`
}

func (l *Ledger) immutableRoute() route.Route {
	return route.Action(route.Row{
		Method: "GET", Path: "/api/v1/admin/immutable-audit", ID: "getImmutableAudit", Tag: "Admin",
		Scopes: []authz.Scope{authz.SuperScope}, Role: authz.Admin, Operator: true, Reads: "immutable_audit.read", Errors: []int{404},
		Summary: "Read the chained record of a company",
		Doc: "The entries of the company's governance ledger, newest first, each with the hash of the one before it. " +
			"`verify` shows whether one was changed, removed or moved.",
	}, l.immutable)
}

func (l *Ledger) immutable(ctx context.Context, _ authz.Caller, in *eventsIn) (*Events, error) {
	if in.TenantID == "" {
		return nil, fault.New(fault.Malformed, "INVALID_QUERY", "The parameter tenant_id is missing: it is the id of the company.")
	}
	known := ident.Valid(in.TenantID)
	if known && l.HasTenant != nil {
		var err error
		if known, err = l.HasTenant(ctx, in.TenantID); err != nil {
			return nil, err
		}
	}
	if !known {
		return nil, fault.New(fault.NotFound, "", "There is no such company.")
	}
	if err := l.Seal(ctx, in.TenantID); err != nil {
		return nil, err
	}
	out := &Events{Entries: []Event{}}
	limit := page.Limit(in.Limit, defaultEvents, maxEvents)
	err := l.newestFirst(ctx, in, func(e *hashchain.Entry) bool {
		if len(out.Entries) == limit {
			out.Truncated = true
			return false
		}
		out.Entries = append(out.Entries, eventOf(in.TenantID, e))
		return true
	}, &out.Truncated)
	if err != nil {
		return nil, err
	}
	out.Events, out.Total = out.Entries, len(out.Entries)
	if in.Verify {
		if out.Chain, err = l.Verify(ctx, in.TenantID, 0, 0); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// newestFirst calls do with the entries that are asked for, until it returns false. The
// chain is in the order of the times but for sealDisorder.
func (l *Ledger) newestFirst(ctx context.Context, in *eventsIn, do func(*hashchain.Entry) bool, truncated *bool) error {
	f := Filter{AgentID: in.AgentID, Action: in.Event}
	for read, last := 0, int64(0); ; {
		entries, err := l.Store.List(ctx, in.TenantID, f, Window{To: last, Limit: exportPage})
		if err != nil {
			return err
		}
		for i := range entries {
			e := &entries[i]
			switch {
			case !in.From.IsZero() && e.At.Before(in.From.Add(-sealDisorder)):
				return nil
			case !in.From.IsZero() && e.At.Before(in.From), !in.To.IsZero() && !e.At.Before(in.To):
			case !do(e):
				return nil
			}
		}
		if len(entries) < exportPage || entries[len(entries)-1].Seq == 1 {
			return nil
		}
		if read += len(entries); read >= readEvents {
			*truncated = true
			return nil
		}
		last = entries[len(entries)-1].Seq - 1
	}
}

func eventOf(tenant string, e *hashchain.Entry) Event {
	return Event{
		EventID: e.ID, Seq: e.Seq, At: e.At, TenantID: tenant, ActorAgentID: optional(e.ActorAgentID), ActorUserID: optional(e.ActorUserID),
		Type: e.Kind, Details: schema.Object(e.Details), TargetAgentID: e.SubjectAgentID, TargetRunID: e.RunID, PrevHash: e.PrevHash,
		Hash: e.Hash,
	}
}
