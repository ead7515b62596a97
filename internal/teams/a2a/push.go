package a2a

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// PushWorkKind is the kind of work that tells one address of the changes of a task; the
// key names both.
const PushWorkKind = "a2a.push"

// PushConfig is where the changes of a task are sent, and with what.
type PushConfig struct {
	ID          string // of the peer's choice; "": a new one
	URL         string
	Version     string // of the protocol in which changes are sent
	Token       string // sent with each change, so that its receiver knows where it comes from; signs it too
	Scheme      string // of Credentials: Bearer or Basic
	Credentials string // sent as Authorization
}

// Bounds of what a peer stores.
const (
	maxPushes    = 10 // of one task
	maxPushID    = 100
	maxPushToken = 4096
)

// Push is a PushConfig as it is stored.
type Push struct {
	TenantID  string
	TaskID    string
	ConfigID  string
	URL       string
	Version   string
	Sealed    []byte // pushSecrets
	Sent      int64  // how many changes of the task are dealt with
	Attempts  int    // that failed since then
	CreatedAt time.Time
}

// pushSecrets is what Push.Sealed has.
type pushSecrets struct {
	Token       string `json:"token,omitzero"`
	Scheme      string `json:"scheme,omitzero"`
	Credentials string `json:"credentials,omitzero"`
}

func (p *Push) key() string { return p.TaskID + "/" + p.ConfigID }

// sealContext binds the secrets to their address.
func (p *Push) sealContext() string {
	return "a2a_push/" + p.TenantID + "/" + p.TaskID + "/" + p.ConfigID
}

// pushOf returns the stored form of a config; nil for nil. Errors: Invalid.
func (s *Service) pushOf(ctx context.Context, rec *Record, c *PushConfig) (*Push, error) {
	if c == nil {
		return nil, nil
	}
	if len(c.ID) > maxPushID || len(c.Token) > maxPushToken || len(c.Credentials) > maxPushToken || len(c.Scheme) > maxPushID {
		return nil, invalid("push_notification_config", "its id has more than %d characters, or its token or credentials more than %d",
			maxPushID, maxPushToken)
	}
	if err := s.CheckURL(ctx, rec.TenantID, c.URL); err != nil {
		return nil, invalid("push_notification_config.url", "%s", fault.From(err).Detail)
	}
	p := &Push{
		TenantID: rec.TenantID, TaskID: rec.TaskID, ConfigID: c.ID, URL: c.URL, Version: c.Version, CreatedAt: s.Clock.Now(), Sent: rec.Changes,
	}
	if p.ConfigID == "" {
		p.ConfigID = ident.New()
	}
	plain, err := json.Marshal(pushSecrets{c.Token, c.Scheme, c.Credentials})
	if err != nil {
		return nil, err
	}
	p.Sealed = s.Box.Seal(plain, p.sealContext())
	return p, nil
}

// open returns a stored config as its peer sent it.
func (s *Service) open(p *Push) (*PushConfig, error) {
	plain, err := s.Box.Open(p.Sealed, p.sealContext())
	if err != nil {
		return nil, err
	}
	var k pushSecrets
	if err := json.Unmarshal(plain, &k); err != nil {
		return nil, err
	}
	return &PushConfig{ID: p.ConfigID, URL: p.URL, Version: p.Version, Token: k.Token, Scheme: k.Scheme, Credentials: k.Credentials}, nil
}

// SetPush stores where the changes of a task are sent. Errors: NotFound, Invalid, and
// Conflict for a task with too many addresses.
func (s *Service) SetPush(ctx context.Context, tenant, taskID string, c PushConfig) (*PushConfig, error) {
	rec, err := s.get(ctx, tenant, taskID)
	if err != nil {
		return nil, err
	}
	p, err := s.pushOf(ctx, rec, &c)
	if err != nil {
		return nil, err
	}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		all, err := s.Store.ListPushesTx(tx, tenant, taskID)
		if err != nil {
			return err
		}
		others := 0
		for i := range all {
			if all[i].ConfigID != p.ConfigID {
				others++
			}
		}
		if others >= maxPushes {
			return fault.New(fault.Conflict, "", "The task has %d addresses for notifications; delete one first.", maxPushes)
		}
		return s.Store.PutPushTx(tx, p)
	})
	c.ID = p.ConfigID
	return &c, err
}

// GetPush returns an address of a task; configID "" is the first. Errors: NotFound.
func (s *Service) GetPush(ctx context.Context, tenant, taskID, configID string) (*PushConfig, error) {
	all, err := s.ListPushes(ctx, tenant, taskID)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if configID == "" || c.ID == configID {
			return c, nil
		}
	}
	return nil, fault.NewNotFound("push notification config")
}

// ListPushes returns the addresses of a task. Errors: NotFound.
func (s *Service) ListPushes(ctx context.Context, tenant, taskID string) ([]*PushConfig, error) {
	if _, err := s.get(ctx, tenant, taskID); err != nil {
		return nil, err
	}
	stored, err := s.Store.ListPushes(ctx, tenant, taskID)
	if err != nil {
		return nil, err
	}
	all := make([]*PushConfig, len(stored))
	for i := range stored {
		if all[i], err = s.open(&stored[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// DeletePush removes an address of a task. It succeeds for one that is not there.
// Errors: NotFound for the task.
func (s *Service) DeletePush(ctx context.Context, tenant, taskID, configID string) error {
	if _, err := s.get(ctx, tenant, taskID); err != nil {
		return err
	}
	return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Store.DeletePushTx(tx, tenant, taskID, configID) })
}

// Post is a change of a task on its way to a peer.
type Post struct {
	TenantID   string
	URL        string
	Secret     string // signs the body; "": it is not signed
	EventID    string // the same in each attempt
	DeliveryID string
	Header     map[string]string
	Body       []byte
}

// HandlePush is the work handler of PushWorkKind: it sends the task as it is now, unless
// the address knows of its last change. Changes that follow each other quickly are sent
// as one.
func (s *Service) HandlePush(ctx context.Context, lease work.Lease) error {
	taskID, configID := cut(lease.Key)
	p, err := s.Store.GetPush(ctx, lease.TenantID, taskID, configID)
	if fault.Is(err, fault.NotFound) {
		return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Queue.FinishTx(tx, lease) })
	}
	if err != nil {
		return err
	}
	rec, err := s.Store.Get(ctx, lease.TenantID, taskID)
	if err != nil {
		return err
	}
	if rec.Changes > p.Sent {
		failure, err := s.post(ctx, p, rec.Changes)
		if err != nil {
			return err
		}
		if failure != "" && p.Attempts < len(s.Waits) {
			due := s.Clock.Now().Add(s.Waits[p.Attempts])
			p.Attempts++
			return s.Writer.Write(ctx, func(tx txn.Tx) error {
				if err := s.Queue.RescheduleTx(tx, lease, due, nil); err != nil {
					return err
				}
				return s.Store.UpdateSentTx(tx, p)
			})
		}
		p.Sent, p.Attempts = rec.Changes, 0
	}
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		// The lease ends first: a change that commits later makes new work, and one that
		// committed before is seen below.
		if err := s.Queue.FinishTx(tx, lease); err != nil {
			return err
		}
		if err := s.Store.UpdateSentTx(tx, p); err != nil {
			return err
		}
		changes, err := s.Store.CountChangesTx(tx, lease.TenantID, taskID)
		if err != nil || changes <= p.Sent {
			return err
		}
		return s.Queue.EnqueueTx(tx, work.Item{Kind: PushWorkKind, Key: lease.Key, TenantID: lease.TenantID, Due: s.Clock.Now()})
	})
}

// cut returns the task and the address that a key names.
func cut(key string) (taskID, configID string) {
	const n = 36 // of an id
	if len(key) <= n {
		return key, ""
	}
	return key[:n], key[n+1:]
}

// post sends a task, and returns why that failed; "": it did not.
func (s *Service) post(ctx context.Context, p *Push, change int64) (failure string, err error) {
	c, err := s.open(p)
	if err != nil {
		return "", err
	}
	t, err := s.Get(ctx, p.TenantID, p.TaskID)
	if err != nil {
		return "", err
	}
	body, err := s.Render(p.Version, t)
	if err != nil {
		return "", err
	}
	header := map[string]string{}
	if c.Token != "" {
		header["X-A2a-Notification-Token"] = c.Token
	}
	if c.Credentials != "" {
		header["Authorization"] = c.Scheme + " " + c.Credentials
	}
	return s.Send(ctx, Post{
		TenantID: p.TenantID, URL: p.URL, Secret: c.Token, Header: header, Body: body,
		EventID: ident.Derive(p.TaskID, p.ConfigID, fmt.Sprint(change)), DeliveryID: ident.New(),
	}), nil
}
