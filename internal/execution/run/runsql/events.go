package runsql

import (
	"context"
	"database/sql"
	"iter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/event"
	"agentd/internal/store/sqldb"
)

// Events keeps the event log of runs. It implements event.Log.
type Events struct{ db *sqldb.DB }

var _ event.Log = (*Events)(nil)

// NewEvents uses the tables of migration 4.
func NewEvents(db *sqldb.DB) *Events { return &Events{db} }

const (
	selectSegments = `SELECT first_seq, body FROM run_events WHERE tenant_id = ? AND run_id = ? AND last_seq > ? ORDER BY last_seq LIMIT ?`
	deleteDrafts   = `DELETE FROM run_events WHERE tenant_id = ? AND run_id = ? AND draft > 0 AND draft <= ?`
)

var insertSegment = sqldb.Insert(`run_events`, `tenant_id, run_id, last_seq, first_seq, draft, body`)

// storedEntry is an event.Entry as it is stored. Its names are short because
// there are many.
type storedEntry struct {
	Name  string         `json:"n"`
	At    int64          `json:"t,omitzero"` // microseconds: since 1970 in the first entry of a row, then since the one before
	Data  jsontext.Value `json:"d,omitzero"`
	Lens  smallInts      `json:"l,omitzero"`
	After smallInts      `json:"a,omitzero"` // each since the one before
	Text  string         `json:"x,omitzero"`
	Step  int64          `json:"s,omitzero"`
	ID    string         `json:"i,omitzero"` // of Step: a UUID as base64, else unchanged
}

// count returns how many events the entry stands for.
func (e *storedEntry) count() int64 { return int64(max(1, len(e.Lens))) }

// segment is a row of the log.
type segment struct {
	first   int64 // sequence number of the first event
	entries []storedEntry
}

// all returns the entries with the sequence number of their first event.
func (g *segment) all() iter.Seq2[int64, *storedEntry] {
	return func(yield func(int64, *storedEntry) bool) {
		seq := g.first
		for i := range g.entries {
			if !yield(seq, &g.entries[i]) {
				return
			}
			seq += g.entries[i].count()
		}
	}
}

// after returns the entries that have events after a sequence number.
func (g *segment) after(last int64) iter.Seq2[int64, *storedEntry] {
	return func(yield func(int64, *storedEntry) bool) {
		for seq, e := range g.all() {
			if seq+e.count()-1 > last && !yield(seq, e) {
				return
			}
		}
	}
}

// Append implements event.Log.
func (s *Events) Append(tenant, stream string, seg event.Segment) txn.Op {
	var enc sqldb.Encoder
	entries := make([]storedEntry, len(seg.Entries))
	before := int64(0)
	for i, e := range seg.Entries {
		at := e.At.UnixMicro()
		entries[i] = storedEntry{shorten(e.Name), at - before, e.Data, e.Lens, differences(e.After), e.Text, e.Step, shortID(e.StepID)}
		before = at
	}
	return enc.Queued(sqldb.Expect{}, insertSegment, tenant, stream, seg.Last(), seg.First, seg.Draft, enc.JSON(entries))
}

// DeleteDraftsTx deletes the drafts of the text of every step up to one.
func (s *Events) DeleteDraftsTx(tx txn.Tx, tenant, stream string, step int64) error {
	return sqldb.From(tx).Queue(deleteDrafts, tenant, stream, step)
}

// Read implements event.Log. It reads the rows first, then the steps that they
// refer to, and expands the entries at last.
func (s *Events) Read(ctx context.Context, tenant, stream string, after int64, limit int) ([]event.Event, error) {
	segments, err := s.segments(ctx, tenant, stream, after, limit)
	if err != nil {
		return nil, err
	}
	steps := &stepTexts{tenant: tenant, run: stream}
	for i := range segments {
		for _, e := range segments[i].after(after) {
			steps.need(e.Step)
		}
	}
	if err := steps.load(ctx, s.db); err != nil {
		return nil, err
	}
	var events []event.Event
	for i := range segments {
		at, begun := int64(0), jsontext.Value(nil)
		for seq, e := range segments[i].all() {
			at += e.At
			if e.Name == "step.started" {
				begun = e.started()
			} else if e.Name != "tool.call" {
				begun = nil
			}
			for n, ev := range steps.expand(e, begun, sqldb.Time(at)) {
				ev.Seq = seq + int64(n)
				if ev.Seq > after && len(events) < limit {
					events = append(events, ev)
				}
			}
		}
	}
	return events, nil
}

// segments reads as many rows as hold limit events after a sequence number.
func (s *Events) segments(ctx context.Context, tenant, stream string, after int64, limit int) ([]segment, error) {
	rows, err := s.db.Query(ctx, selectSegments, tenant, stream, after, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var segments []segment
	for n := int64(0); n < int64(limit) && rows.Next(); {
		seg, err := scanSegment(rows)
		if err != nil {
			return nil, err
		}
		for _, e := range seg.after(after) {
			n += e.count()
		}
		segments = append(segments, seg)
	}
	return segments, rows.Err()
}

func scanSegment(rows *sql.Rows) (seg segment, err error) {
	var body string
	if err := rows.Scan(&seg.first, &body); err != nil {
		return seg, err
	}
	err = json.Unmarshal([]byte(body), &seg.entries)
	for i := range seg.entries {
		seg.entries[i].Name = lengthen(seg.entries[i].Name)
	}
	return seg, err
}
