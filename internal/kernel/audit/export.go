package audit

import (
	"cmp"
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

const (
	defaultExport = 10_000
	maxExport     = 100_000
	exportPage    = 500 // entries that are read at a time

	// settleTime is the age at which entries are exported. Entries of concurrent
	// transactions, and of nodes whose clocks differ a little, are stored in another
	// order than that of their times; a younger one might still appear before one
	// that was exported.
	settleTime = 10 * time.Second
)

type exportIn struct {
	TenantID string    `query:"tenant_id" maxLength:"100" doc:"Another company's log; only the operator may name one, and both logs then say so."`
	From     time.Time `query:"from" doc:"Only what was done at this date-time or later."`
	To       time.Time `query:"to" doc:"Only what was done before this date-time."`
	After    string    `query:"after" maxLength:"100" doc:"The cursor of the last line that you have: the export continues after it. It never expires."`
	Limit    string    `query:"limit" doc:"Entries at most, 1 to 100000; 10000 if it is left out."`
}

// Line is an entry as it leaves agentd: one line of an export, or an element of
// what is pushed.
type Line struct {
	Record

	Cursor string `json:"cursor"`
}

// LineOf returns the line of an entry.
func LineOf(r Record) Line { return Line{r, r.position()} }

// export returns the entries of a log, oldest first, which are read while they are
// sent.
func (l *Log) export(ctx context.Context, who authz.Caller, in *exportIn) (route.Lines, error) {
	tenant := cmp.Or(in.TenantID, who.TenantID)
	f := Filter{EntryFilter: EntryFilter{From: in.From, To: in.To}, OldestFirst: true}
	if f.After = parsePosition(in.After); in.After != "" && f.After.EntryID == "" {
		return nil, fault.New(fault.Invalid, "INVALID_CURSOR", "The parameter after is not the cursor of an exported line.")
	}
	if settled := l.Clock.Now().Add(-settleTime); f.To.IsZero() || f.To.After(settled) {
		f.To = settled
	}
	if tenant != who.TenantID {
		if err := l.mayRead(ctx, who, tenant); err != nil {
			return nil, err
		}
		e := Entry{Action: "audit.cross_tenant_read", TargetType: "tenant", TargetID: tenant, Details: []byte(`{"export":true}`)}
		err := l.Writer.Write(ctx, func(tx txn.Tx) error {
			if err := l.Record(tx, who, e); err != nil {
				return err
			}
			return l.RecordFor(tx, tenant, who, e)
		})
		if err != nil {
			return nil, err
		}
	}
	return l.lines(ctx, tenant, f, page.Limit(in.Limit, defaultExport, maxExport)), nil
}

// lines reads up to n entries, a page at a time.
func (l *Log) lines(ctx context.Context, tenant string, f Filter, n int) route.Lines {
	return func(yield func([]byte, error) bool) {
		for n > 0 {
			f.Limit = min(n, exportPage)
			entries, err := l.Store.List(ctx, tenant, f)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range entries {
				line, err := json.Marshal(LineOf(entries[i]))
				if !yield(line, err) || err != nil {
					return
				}
			}
			if len(entries) < f.Limit {
				return
			}
			last := entries[len(entries)-1]
			f.After = Position{last.At, last.EntryID}
			n -= len(entries)
		}
	}
}
