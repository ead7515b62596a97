// Package audit keeps the audit log of each tenant: who did what to which
// object, and from where. The log is append-only, and an entry is written in the
// transaction of the change that it records.
package audit

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
)

// Entry describes an action. The [Recorder] adds who did it, when and from
// where.
type Entry struct {
	Action     string         // thing and past participle: api_key.revoked
	TargetType string         // api_key
	TargetID   string         // "" if there is no single target
	Details    jsontext.Value // a JSON object with more, never a secret; nil: none
}

// Recorder writes entries.
type Recorder interface {
	// Record writes an entry about the caller's action to the log of the
	// caller's tenant, in the transaction of the action.
	Record(tx txn.Tx, who authz.Caller, e Entry) error
}

// Write records an entry with r; if r is nil, it does nothing.
func Write(r Recorder, tx txn.Tx, who authz.Caller, e Entry) error {
	if r == nil {
		return nil
	}
	return r.Record(tx, who, e)
}

// Methods of callers without a credential.
const (
	CommandLine = "command_line" // the operator, at the machine
	System      = "system"       // agentd itself, or an agent
	Anonymous   = "anonymous"    // a stranger: no credential was accepted
)

// Record is an entry as it is kept and shown.
type Record struct {
	_ struct{} `json:"-" name:"AuditEntry"`

	EntryID   string        `json:"entry_id" format:"uuid" required:"true"`
	TenantID  string        `json:"tenant_id" required:"true" doc:"Whose log it stands in."`
	Action    string        `json:"action" required:"true" doc:"Thing and past participle, such as api_key.revoked."`
	ActorIn   string        `json:"actor_tenant_id" required:"true" doc:"The company of whoever did it: the operator's, where that is another than tenant_id. Empty: it is unknown."`
	UserID    string        `json:"actor_user_id,omitzero"`
	KeyID     string        `json:"actor_key_id,omitzero"`
	SessionID string        `json:"actor_session_id,omitzero" doc:"The browser session, where no key was used."`
	Method    string        `json:"method" required:"true" doc:"How the actor came in: api_key, cookie or jwt; command_line for the operator at the machine; system for agentd itself; anonymous for a stranger."`
	Target    string        `json:"target_type" required:"true"`
	TargetID  string        `json:"target_id" required:"true" doc:"Empty where the entry is about no single thing."`
	Details   schema.Object `json:"details" required:"true"`
	Address   string        `json:"ip_address,omitzero"`
	RequestID string        `json:"request_id,omitzero" doc:"X-Request-Id of the answer."`
	At        time.Time     `json:"timestamp" required:"true"`
}

// Filter selects entries of one tenant's log.
type Filter struct {
	TargetFilter
	EntryFilter
	After Position // only entries beyond it; zero: from the beginning
	Limit int
	// OldestFirst reverses the order of the list.
	OldestFirst bool
}

// TargetFilter has the filters of listAuditEntriesOfTarget; see sqldb.Filter.
// There is no index of types alone.
type TargetFilter struct {
	TargetID   string `path:"targetId" format:"any" maxLength:"200" filter:"target_id <> '' AND target_id = ?" index:"audit_log_target"`
	TargetType string `query:"type" maxLength:"100" doc:"Only entries on a target of this type; unknown, or left out, means any." filter:"target_type = ?" index:"audit_log_target"`
}

// EntryFilter has the filters of listAuditEntries. The store knows which actors
// are keys.
type EntryFilter struct {
	ActorID string    `query:"actor_id" maxLength:"100" doc:"Only what was done by this key or by this member."`
	Action  string    `query:"action" maxLength:"200" doc:"Only entries with this action." filter:"action = ?" index:"audit_log_action"`
	From    time.Time `query:"from" doc:"Only what was done at this date-time or later." filter:"at >= ?" index:"primary key"`
	To      time.Time `query:"to" doc:"Only what was done before this date-time." filter:"at < ?" index:"primary key"`
}

// Position is the place of an entry in its log.
type Position struct {
	At      time.Time
	EntryID string
}

// Store is the port to the entries. An entry is never changed, and removed only
// when its tenant is purged.
type Store interface {
	AppendTx(tx txn.Tx, r Record) error
	// List returns entries of a tenant, newest first unless the filter reverses it.
	List(ctx context.Context, tenant string, f Filter) ([]Record, error)
	// Count counts up to most entries that a filter selects. It ignores After
	// and Limit.
	Count(ctx context.Context, tenant string, f Filter, most int) (int, error)
	// GetOwnerTx returns the tenant in whose log entries of a tenant are: its own ID,
	// "" once it is deleted. Of the tenant "" that is the operator's tenant.
	GetOwnerTx(tx txn.Tx, tenant string) (string, error)
	// HasTenant reports whether the tenant exists and is not deleted.
	HasTenant(ctx context.Context, tenant string) (bool, error)
}

// Log is the Recorder of the service, and serves the entries to readers.
type Log struct {
	Store   Store
	Writer  txn.Writer
	Cursors *page.Cursors
	Clock   clock.Clock
}

var _ Recorder = (*Log)(nil)

// Record implements Recorder.
func (l *Log) Record(tx txn.Tx, who authz.Caller, e Entry) error {
	if who.TenantID == "" {
		return fault.New(fault.Internal, "", "audit: %s was done by nobody", e.Action)
	}
	r := l.record(who.TenantID, who, e)
	r.UserID, r.KeyID, r.SessionID = who.UserID, who.KeyID, who.SessionID
	r.Address, r.RequestID = who.Address, who.RequestID
	return l.Store.AppendTx(tx, r)
}

// RecordFor writes what the operator did with another tenant into that tenant's
// log. Which person of the operator did it, and from where, is only in the
// operator's own log.
func (l *Log) RecordFor(tx txn.Tx, tenant string, who authz.Caller, e Entry) error {
	return l.Store.AppendTx(tx, l.record(tenant, who, e))
}

func (l *Log) record(tenant string, who authz.Caller, e Entry) Record {
	r := Record{
		EntryID: ident.New(), TenantID: tenant, Action: e.Action, ActorIn: who.TenantID, Method: who.Method,
		Target: e.TargetType, TargetID: e.TargetID, Details: schema.Object(e.Details), At: l.Clock.Now(),
	}
	if r.Method == "" {
		r.Method = System
	}
	return r
}
