// Package ledger keeps the record of governance: a chain of entries for each tenant, in
// which a change, a removal or another order is found afterwards (package hashchain).
//
// An entry is written in the transaction of what it records, without a place in the
// chain, so that transactions of one tenant do not wait for each other. It gets its
// place when it is sealed: a moment later in the background, or when the ledger is read.
// Entries stand in the order of their IDs within what is sealed at once.
package ledger

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/clock"
	"agentd/internal/base/hashchain"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

const (
	sealBatch  = 500 // entries in one transaction
	sealEvery  = 2 * time.Second
	verifyPage = 5000
)

// Entry describes what happened. IDs that do not apply are "".
type Entry struct {
	Kind           string // area and past participle: constitution.amended
	ActorAgentID   string // the agent who did it
	ActorUserID    string // the person who did it
	SubjectAgentID string // the agent that it is about
	RuleID         string
	RunID          string
	Details        any // rendered as a JSON object, never with a secret; nil: {}
}

// Appender writes entries.
type Appender interface {
	// AppendTx writes an entry to a tenant's ledger, in the transaction of what it
	// records. It locks no row.
	AppendTx(tx txn.Tx, tenant string, e Entry) error
}

// Filter selects entries of a ledger; the zero value selects all.
type Filter struct {
	Category string `query:"category" maxLength:"100" doc:"Only entries of this area: the part of kind before the dot." filter:"category = ?" index:"ledger_category"`
	Action   string `query:"action" maxLength:"200" doc:"Only entries of this kind, such as constitution.amended." filter:"kind = ?" index:"ledger_kind"`
	AgentID  string `query:"agent_id" maxLength:"100" doc:"Only entries about this agent." filter:"subject_agent_id <> '' AND subject_agent_id = ?" index:"ledger_subject"`
}

// Window is a part of a chain: entries From to To, newest first; 0 leaves an end
// open. Limit bounds how many are read.
type Window struct {
	From, To  int64
	Limit     int
	Ascending bool
}

// Store is the port to the entries.
type Store interface {
	// AppendTx writes an entry without a place in the chain.
	AppendTx(tx txn.Tx, tenant string, e hashchain.Entry) error
	// ListUnsealedTenants lists up to n tenants that have unsealed entries, in order,
	// after a tenant.
	ListUnsealedTenants(ctx context.Context, after string, n int) ([]string, error)
	// HasUnsealed reports whether a tenant has unsealed entries.
	HasUnsealed(ctx context.Context, tenant string) (bool, error)
	// LockHeadTx locks the end of the chain until commit, and returns it.
	LockHeadTx(tx txn.Tx, tenant string) (hashchain.Head, error)
	// ListUnsealedTx lists up to n unsealed entries, oldest ID first.
	ListUnsealedTx(tx txn.Tx, tenant string, n int) ([]hashchain.Entry, error)
	// AppendSealedTx moves entries into the chain, of which head is the new end.
	AppendSealedTx(tx txn.Tx, tenant string, entries []hashchain.Entry, head hashchain.Head) error
	// GetHead returns the end of the chain; zero if it has no entry.
	GetHead(ctx context.Context, tenant string) (hashchain.Head, error)
	// List lists sealed entries.
	List(ctx context.Context, tenant string, f Filter, w Window) ([]hashchain.Entry, error)
}

// Deps is what a Ledger needs.
type Deps struct {
	Store  Store
	Writer txn.Writer
	Clock  clock.Clock
	Key    ed25519.PrivateKey   // signs heads; nil: they are not signed
	Former []ed25519.PrivateKey // those that signed before
	Log    *slog.Logger
	Off    bool // governance is switched off: nothing is recorded
	// HasTenant reports whether there is a tenant; nil: there are all.
	HasTenant func(ctx context.Context, tenant string) (bool, error)
}

// Ledger is the Appender of the service, and serves the entries to readers.
type Ledger struct {
	Deps

	appended chan struct{} // has an item while entries of this node may be unsealed
}

var _ Appender = (*Ledger)(nil)

// New returns the ledger.
func New(deps Deps) *Ledger { return &Ledger{Deps: deps, appended: make(chan struct{}, 1)} }

// AppendTx implements Appender.
func (l *Ledger) AppendTx(tx txn.Tx, tenant string, e Entry) error {
	if l.Off {
		return nil
	}
	details := jsontext.Value(`{}`)
	if e.Details != nil {
		var err error
		if details, err = json.Marshal(e.Details); err != nil {
			return err
		}
		if details.Kind() != '{' {
			return fmt.Errorf("the details of an entry %s are no object: %.100s", e.Kind, details)
		}
		if err := details.Canonicalize(); err != nil {
			return err
		}
	}
	tx.AfterCommit(l.wake)
	return l.Store.AppendTx(tx, tenant, hashchain.Entry{
		ID: ident.New(), At: l.Clock.Now().Truncate(time.Microsecond), Kind: e.Kind, ActorAgentID: e.ActorAgentID, ActorUserID: e.ActorUserID,
		SubjectAgentID: e.SubjectAgentID, RuleID: e.RuleID, RunID: e.RunID, Details: details,
	})
}

func (l *Ledger) wake() {
	select {
	case l.appended <- struct{}{}:
	default:
	}
}

// Seal moves the unsealed entries of a tenant into its chain.
// It is safe on several nodes at once: the chain has one end, which is locked.
func (l *Ledger) Seal(ctx context.Context, tenant string) error {
	for {
		// Only a transaction that seals something writes.
		if waiting, err := l.Store.HasUnsealed(ctx, tenant); err != nil || !waiting {
			return err
		}
		err := l.Writer.Write(ctx, func(tx txn.Tx) error {
			head, err := l.Store.LockHeadTx(tx, tenant)
			if err != nil {
				return err
			}
			entries, err := l.Store.ListUnsealedTx(tx, tenant, sealBatch)
			if err != nil || len(entries) == 0 {
				return err
			}
			for i := range entries {
				head = entries[i].Seal(head)
			}
			return l.Store.AppendSealedTx(tx, tenant, entries, head)
		})
		if err != nil {
			return err
		}
	}
}

// Serve seals entries until ctx ends: those of this node two seconds after they were
// written, and all others within a minute, also those of a node that died.
func (l *Ledger) Serve(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		work.Every(ctx, time.Minute, l.Log, "sealing the ledgers", l.SealAll)
	}()
	defer func() { <-done }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.appended:
		}
		timer.Reset(sealEvery) // so that a batch comes together
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := l.SealAll(ctx); err != nil && ctx.Err() == nil {
			l.Log.Warn("sealing the ledgers", "err", err)
			l.wake()
		}
	}
}

// SealAll seals the entries of all tenants.
func (l *Ledger) SealAll(ctx context.Context) error {
	after := ""
	for {
		tenants, err := l.Store.ListUnsealedTenants(ctx, after, sealBatch)
		if err != nil {
			return err
		}
		for _, tenant := range tenants {
			if err := l.Seal(ctx, tenant); err != nil {
				return err
			}
			after = tenant
		}
		if len(tenants) < sealBatch {
			return nil
		}
	}
}
