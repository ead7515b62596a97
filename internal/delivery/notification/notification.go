// Package notification notifies people of what they may want to act on: a run
// waits for an approval, a run failed, an agent sent a message.
//
// Other packages call [Service.Notify] in the transaction that makes the fact
// true. The notifications of a tenant are numbered in the order of their commits;
// a stream sends them by number, and resumes by it.
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

// Notification is a message to all people of a tenant, or to one of them.
type Notification struct {
	_ struct{} `json:"-" name:"Notification"`

	ID        string          `json:"id" format:"uuid" required:"true"`
	TenantID  string          `json:"tenant_id" required:"true"`
	UserID    *string         `json:"user_id" doc:"The recipient; null for everyone in the company."`
	Type      string          `json:"type" required:"true" doc:"For example run.failed or run.awaiting_approval. New types may be added."`
	Title     string          `json:"title" required:"true"`
	Message   string          `json:"message" required:"true"`
	Data      schema.Nullable `json:"data" doc:"Details for programs."`
	Read      bool            `json:"read" required:"true" doc:"Whether it was read. A notification for everyone is read once anyone has read it."`
	ActionURL string          `json:"action_url,omitzero" doc:"Link to its subject: a path of this server, or a URL."`
	CreatedAt time.Time       `json:"created_at" required:"true"`
	Priority  Priority        `json:"priority" enum:"critical,warning,info,success" required:"true"`
	DedupKey  string          `json:"dedup_key,omitzero" doc:"Later notifications with the same key are dropped."`
	Source    *Source         `json:"source,omitzero" doc:"Its subject."`

	Seq int64 `json:"-"` // its number within the tenant
}

// Priority is the priority of a notification.
type Priority string

// The priorities. Info is the default.
const (
	Critical Priority = "critical"
	Warning  Priority = "warning"
	Info     Priority = "info"
	Success  Priority = "success"
)

// Source is the subject of a notification.
type Source struct {
	_ struct{} `json:"-" name:"NotificationSource"`

	Kind string `json:"kind" enum:"run,agent,bridge,budget,team,task" required:"true"`
	ID   string `json:"id" required:"true"`
}

// The types of notifications. Types of other areas begin with "domain.".
const (
	RunFailed           = "run.failed"
	RunAwaitingApproval = "run.awaiting_approval"
	RunAwaitingInput    = "run.awaiting_input"
	RunAuthRequired     = "run.auth_required"
	BudgetWarning       = "budget.warning" // also for the limits of a plan
	BudgetExceeded      = "budget.exceeded"
	SystemAlert         = "system.alert"
	InviteAccepted      = "invite.accepted"
	AgentMessage        = "domain.agent.message" // sent by the tool send_notification
)

// The maximum sizes in bytes. Longer titles and messages are truncated.
const (
	maxTitle   = 300
	maxMessage = 4000
	maxKey     = 300
)

// prepare sets the defaults of a notification and truncates its texts.
func (n *Notification) prepare(id string, now time.Time) error {
	if n.TenantID == "" || n.Type == "" || blank(n.Title) || len(n.DedupKey) > maxKey {
		return fault.New(fault.Internal, "", "The notification has no tenant, type or title, or its key is too long.")
	}
	if n.Priority == "" {
		n.Priority = Info
	}
	n.ID, n.CreatedAt, n.Read = id, now, false
	n.Title, n.Message = fit(n.Title, maxTitle), fit(n.Message, maxMessage)
	return nil
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// fit returns a text of at most limit bytes that both databases can store.
func fit(s string, limit int) string {
	return text.TruncateBytes(strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\ufffd"), limit)
}

// Filter narrows a list of notifications; see sqldb.Filter.
type Filter struct {
	Unread bool `query:"unread" doc:"Only unread notifications." filter:"read_at = 0" index:"notifications_unread"`
}

// Store is the port to notifications. Every method takes the tenant; user narrows
// it to what that person sees: their own notifications and those for everyone.
type Store interface {
	// CreateTx stores a notification and returns its number, the highest of its
	// tenant. If one with its DedupKey exists, it stores nothing and returns 0.
	CreateTx(tx txn.Tx, n *Notification) (seq int64, err error)
	// DeleteOldestTx deletes those of a tenant up to a number.
	DeleteOldestTx(tx txn.Tx, tenant string, upTo int64) error

	// List returns the newest first.
	List(ctx context.Context, tenant, user string, f Filter, limit int) ([]Notification, error)
	// ListAfter returns those after a number, oldest first.
	ListAfter(ctx context.Context, tenant, user string, after int64, limit int) ([]Notification, error)
	// GetLastSeq returns the highest number that was ever assigned.
	GetLastSeq(ctx context.Context, tenant string) (int64, error)
	CountUnread(ctx context.Context, tenant, user string, limit int) (int, error)

	// MarkReadTx marks one as read, or all if id is "", and returns how many were
	// unread.
	MarkReadTx(tx txn.Tx, tenant, user, id string, at time.Time) (int, error)
	// DeleteTx deletes one, or all if id is "", and returns how many. onlyRead
	// keeps those that are unread.
	DeleteTx(tx txn.Tx, tenant, user, id string, onlyRead bool) (int, error)
}

// dedupKey returns a DedupKey that is short whatever a model wrote into its parts.
func dedupKey(area string, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return area + "/" + hex.EncodeToString(sum[:])
}
