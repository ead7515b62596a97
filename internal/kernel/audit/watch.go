package audit

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/ratelimit"
)

// Actions of the entries that a [Watch] writes, beside those of downloads, exports,
// links and signatures, which their routes name.
const (
	SignInFailed      = "auth.sign_in_failed"     // a code, link or provider did not sign a person in
	CredentialRefused = "auth.credential_refused" // an API key, session or stream token was not accepted
	AccessRefused     = "access.refused"          // the caller's scopes, role or company do not suffice
)

// Sighting is a request that leaves an entry without being a change: a refusal, or
// a download.
type Sighting struct {
	Who       authz.Caller // without TenantID: a stranger
	Action    string
	Operation string // its id in the OpenAPI document
	Code      string // of the refusal; "": it succeeded
	Target    string // a type, such as file
	TargetID  string
}

// Refusal is the private cause of the refusal of a stranger who names something of a
// company by a link or an address: the refusal then stands in the log of that
// company. Without it, it stands in the operator's.
type Refusal struct {
	TenantID string
	TargetID string // what the link or address leads to
}

// Error implements error.
func (r *Refusal) Error() string { return "a stranger's link or signature was refused" }

// TargetOf returns the type of target that an action is about: file, of
// file.downloaded.
func TargetOf(action string) string {
	target, _, _ := strings.Cut(action, ".")
	return target
}

// Bounds of a Watch. Beyond its budget, a log gets one entry for each action and
// window, which counts what it does not name.
const (
	watchWindow  = time.Minute
	mostSighted  = 4096                // rows of one window, in all logs
	mostUnsent   = 2*mostSighted + 100 // entries that wait for a database that is away
	watchBatch   = 200                 // entries of one transaction
	maxSeenID    = 200                 // bytes of an id
	flushTimeout = 5 * time.Second
)

// budget is how many entries the sightings of one window may leave in a log.
type budget struct{ burst, refill int }

var (
	strangersBudget = budget{burst: 200, refill: 10}  // of all strangers together, and of those at one tenant's links
	membersBudget   = budget{burst: 1000, refill: 60} // of a tenant's credentials
)

// spender is whoever shares a budget. Strangers have their own in the log of a
// tenant, so that they do not spend that of its credentials.
type spender struct {
	tenant   string
	stranger bool
}

func (s spender) budget() budget {
	if s.stranger {
		return strangersBudget
	}
	return membersBudget
}

// Watch counts sightings in memory and writes them to the audit log in the
// background, one entry for each action, operation, refusal, credential, address
// and target of a minute. Neither its memory nor what it writes grows with the
// number of requests, so that strangers cannot fill the log. Sightings of a process
// that is killed are lost, for up to a minute. Safe for concurrent use.
type Watch struct {
	log    *Log
	logger *slog.Logger

	mu    sync.Mutex
	rows  map[sightingKey]*sighted
	spent map[spender]int // entries of each, less what was refilled

	writing sync.Mutex
	unsent  []unsent
}

// sightingKey is what sightings have in common that are counted together.
type sightingKey struct {
	tenant, user, key, session, method, address string
	action, operation, code, target, targetID   string

	overflow bool // the other fields but tenant and action are empty
}

// sighted is what is known of the sightings of a key.
type sighted struct {
	count       int
	first, last time.Time
	request     string // of the only sighting
}

type unsent struct {
	key sightingKey
	sighted
}

// NewWatch returns a Watch that writes to l.
func NewWatch(l *Log, logger *slog.Logger) *Watch {
	return &Watch{log: l, logger: logger, rows: map[sightingKey]*sighted{}, spent: map[spender]int{}}
}

// Note counts a sighting. It never blocks on the database.
func (w *Watch) Note(s Sighting) {
	now := w.log.Clock.Now()
	key := sightingKey{
		tenant: s.Who.TenantID, user: s.Who.UserID, key: s.Who.KeyID, session: s.Who.SessionID, method: s.Who.Method,
		address: ratelimit.Network(s.Who.Address),
		action:  s.Action, operation: s.Operation, code: s.Code, target: s.Target, targetID: s.TargetID[:min(len(s.TargetID), maxSeenID)],
	}
	by := spender{tenant: key.tenant, stranger: key.user == "" && key.key == "" && key.session == ""}
	w.mu.Lock()
	defer w.mu.Unlock()
	row := w.rows[key]
	if row == nil {
		if len(w.rows) < mostSighted && w.spent[by] < by.budget().burst {
			w.spent[by]++
		} else {
			key = sightingKey{tenant: key.tenant, action: key.action, overflow: true}
			if len(w.rows) >= 2*mostSighted {
				key.tenant = "" // the operator's log has one row for each action
			}
		}
		if row = w.rows[key]; row == nil {
			row = &sighted{first: now}
			w.rows[key] = row
		}
	}
	row.count++
	row.last = now
	row.request = s.Who.RequestID
}

// Serve writes what was counted once a minute, and once more when ctx ends.
func (w *Watch) Serve(ctx context.Context) {
	tick := time.NewTicker(watchWindow)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.flush(ctx)
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
			defer cancel()
			w.flush(ctx)
			return
		}
	}
}

func (w *Watch) flush(ctx context.Context) {
	if err := w.Flush(ctx); err != nil {
		w.logger.Warn("refusals and downloads could not be written to the audit log; they are written with the next ones", "err", err)
	}
}

// Flush writes what was counted. What cannot be written is kept for the next
// Flush.
func (w *Watch) Flush(ctx context.Context) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.unsent = append(w.unsent, w.take()...)
	if surplus := len(w.unsent) - mostUnsent; surplus > 0 {
		w.logger.Error("the database was away for too long: entries of the audit log are lost", "entries", surplus)
		w.unsent = slices.Clone(w.unsent[surplus:])
	}
	for len(w.unsent) > 0 {
		batch := w.unsent[:min(len(w.unsent), watchBatch)]
		err := w.log.Writer.Write(ctx, func(tx txn.Tx) error {
			for i := range batch {
				if err := w.append(tx, &batch[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		w.unsent = w.unsent[len(batch):]
	}
	w.unsent = nil
	return nil
}

// take returns what was counted, in the order in which it began, and begins a new
// window.
func (w *Watch) take() (all []unsent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, row := range w.rows {
		all = append(all, unsent{key, *row})
	}
	clear(w.rows)
	for by, n := range w.spent {
		if n -= by.budget().refill; n > 0 {
			w.spent[by] = n
		} else {
			delete(w.spent, by)
		}
	}
	slices.SortFunc(all, func(a, b unsent) int {
		return cmp.Or(a.first.Compare(b.first), cmp.Compare(a.key.action, b.key.action))
	})
	return all
}

// append writes an entry to the log of its tenant, or to the operator's. The log of
// a deleted tenant gets none.
func (w *Watch) append(tx txn.Tx, u *unsent) error {
	tenant, err := w.log.Store.GetOwnerTx(tx, u.key.tenant)
	if err != nil || tenant == "" {
		return err
	}
	details, err := json.Marshal(struct {
		Operation string    `json:"operation,omitzero"`
		Code      string    `json:"code,omitzero"`
		Count     int       `json:"count"`
		First     time.Time `json:"first_at"`
		Last      time.Time `json:"last_at"`
		Overflow  bool      `json:"overflow,omitzero"`
	}{u.key.operation, u.key.code, u.count, u.first, u.last, u.key.overflow})
	if err != nil {
		return err
	}
	k := &u.key
	r := Record{
		EntryID: ident.New(), TenantID: tenant, Action: k.action, ActorIn: k.tenant,
		UserID: k.user, KeyID: k.key, SessionID: k.session, Method: cmp.Or(k.method, Anonymous), Address: k.address,
		Target: k.target, TargetID: k.targetID, Details: schema.Object(details), At: w.log.Clock.Now(),
	}
	if u.count == 1 {
		r.RequestID = u.request
	}
	return w.log.Store.AppendTx(tx, r)
}
