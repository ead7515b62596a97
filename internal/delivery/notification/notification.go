// Package notification tells people what happened that they may want to act
// on (behaviours.md section 18): a run waits for an approval, a run failed, an
// agent has something to say.
//
// Whoever has something to tell calls [Service.Notify] in the transaction that
// makes it true. Each tenant's notifications have numbers that rise in the
// order of their commits; a stream sends them by number, and resumes by it.
package notification

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/base/text"
	"agentd/internal/base/txn"
)

// Notification is one message to a company, or to one of its people.
type Notification struct {
	_ struct{} `json:"-" name:"Notification"`

	ID        string          `json:"id" format:"uuid" required:"true"`
	TenantID  string          `json:"tenant_id" required:"true"`
	UserID    *string         `json:"user_id" doc:"Whom it is for; null: everybody in the company."`
	Type      string          `json:"type" required:"true" doc:"What happened: run.failed, run.awaiting_approval and others. New ones may appear."`
	Title     string          `json:"title" required:"true"`
	Message   string          `json:"message" required:"true"`
	Data      schema.Nullable `json:"data" doc:"More about it, for programs."`
	Read      bool            `json:"read" required:"true" doc:"Whether somebody has read it. One for everybody is read once anybody has."`
	ActionURL string          `json:"action_url,omitzero" doc:"Where to look at what it is about: a path of this service, or an address."`
	CreatedAt time.Time       `json:"created_at" required:"true"`
	Priority  Priority        `json:"priority" enum:"critical,warning,info,success" required:"true"`
	DedupKey  string          `json:"dedup_key,omitzero" doc:"A second notification with the same key was left out."`
	Source    *Source         `json:"source,omitzero" doc:"What it is about."`

	Seq int64 `json:"-"` // its number within the tenant
}

// Priority of a notification.
type Priority string

// The priorities. Info is that of a notification that names none.
const (
	Critical Priority = "critical"
	Warning  Priority = "warning"
	Info     Priority = "info"
	Success  Priority = "success"
)

// Source is the thing that a notification is about.
type Source struct {
	_ struct{} `json:"-" name:"NotificationSource"`

	Kind string `json:"kind" enum:"run,agent,bridge,budget,team,task" required:"true"`
	ID   string `json:"id" required:"true"`
}

// Types of notifications that are made today. behaviours.md section 18 names
// more; types of other areas begin with "domain.".
const (
	RunFailed           = "run.failed"
	RunAwaitingApproval = "run.awaiting_approval"
	RunAwaitingInput    = "run.awaiting_input"
	RunAuthRequired     = "run.auth_required"
	BudgetWarning       = "budget.warning" // of a plan's limit too
	BudgetExceeded      = "budget.exceeded"
	SystemAlert         = "system.alert"
	InviteAccepted      = "invite.accepted"
	AgentMessage        = "domain.agent.message" // of the tool send_notification
)

// Longest texts, in bytes; what is longer is cut.
const (
	maxTitle   = 300
	maxMessage = 4000
	maxKey     = 300
)

// ready fills what whoever made a notification left out, and cuts what is too
// long. A type is words with dots between them.
func (n *Notification) ready(id string, now time.Time) error {
	if n.TenantID == "" || n.Type == "" || blank(n.Title) || len(n.DedupKey) > maxKey {
		return fault.New(fault.Internal, "", "A notification without a tenant, type or title, or with too long a key.")
	}
	if n.Priority == "" {
		n.Priority = Info
	}
	n.ID, n.CreatedAt, n.Read = id, now, false
	n.Title, n.Message = fit(n.Title, maxTitle), fit(n.Message, maxMessage)
	return nil
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// fit makes a text storable, and no longer than most.
func fit(s string, most int) string {
	return text.TruncateBytes(strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\ufffd"), most)
}

// Store is the port to notifications. Every call takes the tenant; user
// narrows it to what that person sees: the tenant's and their own.
type Store interface {
	// CreateTx stores a notification and gives it its number, the highest of its
	// tenant. Where there is one with its DedupKey it stores nothing and gives
	// 0.
	CreateTx(tx txn.Tx, n *Notification) (seq int64, err error)
	// DeleteOldestTx forgets those of a tenant up to a number.
	DeleteOldestTx(tx txn.Tx, tenant string, upTo int64) error

	// List gives the newest first.
	List(ctx context.Context, tenant, user string, unread bool, limit int) ([]Notification, error)
	// ListAfter gives those behind a number, the oldest first.
	ListAfter(ctx context.Context, tenant, user string, after int64, limit int) ([]Notification, error)
	// GetLastSeq is the highest number that was ever given out.
	GetLastSeq(ctx context.Context, tenant string) (int64, error)
	CountUnread(ctx context.Context, tenant, user string) (int, error)

	// MarkReadTx marks one, or all where id is "", and says how many were not
	// read before.
	MarkReadTx(tx txn.Tx, tenant, user, id string, at time.Time) (int, error)
	// DeleteTx deletes one, or all where id is "", of those only that are read
	// where read says so.
	DeleteTx(tx txn.Tx, tenant, user, id string, read bool) (int, error)
}

// key makes a DedupKey that is short whatever a model wrote into its parts.
func key(area string, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return area + "/" + hex.EncodeToString(sum[:])
}
