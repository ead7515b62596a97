// Package retrievalsql keeps collections of passages and their vectors on SQL.
package retrievalsql

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"math"
	"strings"

	"agentd/internal/base/txn"
	"agentd/internal/content/retrieval"
	"agentd/internal/content/textindex"
	"agentd/internal/store/sqldb"
)

// Store keeps what is searched; it implements retrieval.Store.
type Store struct{ db *sqldb.DB }

var _ retrieval.Store = (*Store)(nil)

// New uses the tables of migration 6.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	beginCollection = `INSERT INTO collections (tenant_id, collection_id, version, removed) VALUES (?, ?, 1, 0)
		ON CONFLICT (tenant_id, collection_id) DO UPDATE SET version = collections.version + 1
		RETURNING version`
	markRemoved = `UPDATE collections SET removed = ? WHERE tenant_id = ? AND collection_id = ?`

	passageColumns = `passage_id, source_id, position, kind, text, words, start_at, page, boost, at, version, vector_model`
	storedColumns  = `tenant_id, collection_id, ` + passageColumns + `, vector`

	ofCollection = ` WHERE tenant_id = ? AND collection_id = ?`
	ofPassage    = ofCollection + ` AND passage_id = ?`

	updateVector = `UPDATE passages SET vector_model = ?, vector = ?, version = ?` + ofPassage + ` AND version = ?`
	resetFailed  = `UPDATE passages SET vector_model = '', version = ?` + ofCollection + ` AND vector IS NULL AND vector_model <> ''`
	countSources = `SELECT source_id, COUNT(*), SUM(CASE WHEN vector_model = ? AND vector IS NOT NULL THEN 1 ELSE 0 END),
		SUM(CASE WHEN vector_model <> ? THEN 1 ELSE 0 END) FROM passages` + ofCollection + ` GROUP BY source_id`
)

var (
	passageValues  = sqldb.Values(storedColumns)
	insertPassages = sqldb.Insert(`passages`, storedColumns)
	passageArgs    = 1 + strings.Count(storedColumns, `,`)
)

// passageRows is how many rows one statement inserts.
const passageRows = 50

// IncrementVersionTx implements retrieval.Store.
func (s *Store) IncrementVersionTx(tx txn.Tx, tenant, collection string) (version int64, err error) {
	err = sqldb.From(tx).QueryRow(beginCollection, tenant, collection).Scan(&version)
	return version, err
}

// CreateTx implements retrieval.Store.
func (s *Store) CreateTx(tx txn.Tx, tenant, collection string, version int64, passages []retrieval.Passage) error {
	for from := 0; from < len(passages); from += passageRows {
		some := passages[from:min(from+passageRows, len(passages))]
		args := make([]any, 0, passageArgs*len(some))
		for _, p := range some {
			args = append(args, tenant, collection, p.ID, p.SourceID, p.Position, p.Kind, p.Text, p.Words, p.Start, p.Page, p.Boost,
				sqldb.Micros(p.At), version, p.Model, encodeVector(p.Vector))
		}
		_, err := sqldb.From(tx).Exec(insertPassages+strings.Repeat(", "+passageValues, len(some)-1), args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// UpdateTx implements retrieval.Store.
func (s *Store) UpdateTx(tx txn.Tx, tenant, collection string, version int64, p retrieval.Passage, anew bool) error {
	set := `UPDATE passages SET kind = ?, text = ?, words = ?, boost = ?, at = ?, version = ?`
	if anew {
		set += `, vector_model = '', vector = NULL`
	}
	_, err := sqldb.From(tx).Exec(set+ofPassage, p.Kind, p.Text, p.Words, p.Boost, sqldb.Micros(p.At), version, tenant, collection, p.ID)
	return err
}

// DeleteTx implements retrieval.Store.
func (s *Store) DeleteTx(tx txn.Tx, tenant, collection string, version int64, ids []string) error {
	for _, id := range ids {
		if _, err := sqldb.From(tx).Exec(`DELETE FROM passages`+ofPassage, tenant, collection, id); err != nil {
			return err
		}
	}
	return s.removed(tx, tenant, collection, version)
}

// DeleteSourceTx implements retrieval.Store.
func (s *Store) DeleteSourceTx(tx txn.Tx, tenant, collection string, version int64, source string) error {
	const ofSource = ofCollection + ` AND source_id = ? AND source_id <> ''`
	if _, err := sqldb.From(tx).Exec(`DELETE FROM passages`+ofSource, tenant, collection, source); err != nil {
		return err
	}
	return s.removed(tx, tenant, collection, version)
}

func (s *Store) removed(tx txn.Tx, tenant, collection string, version int64) error {
	_, err := sqldb.From(tx).Exec(markRemoved, version, tenant, collection)
	return err
}

// DeleteCollectionTx implements retrieval.Store.
func (s *Store) DeleteCollectionTx(tx txn.Tx, tenant, collection string) error {
	for _, table := range []string{"collections", "passages"} {
		if _, err := sqldb.From(tx).Exec(`DELETE FROM `+table+ofCollection, tenant, collection); err != nil {
			return err
		}
	}
	return nil
}

// UpdateVectorsTx implements retrieval.Store.
func (s *Store) UpdateVectorsTx(tx txn.Tx, tenant, collection string, version int64, model string, vectors []retrieval.Vector) error {
	for _, v := range vectors {
		_, err := sqldb.From(tx).Exec(updateVector,
			model, encodeVector(v.Values), version, tenant, collection, v.ID, v.Version)
		if err != nil {
			return err
		}
	}
	return nil
}

// ResetFailedTx implements retrieval.Store.
func (s *Store) ResetFailedTx(tx txn.Tx, tenant, collection string, version int64) error {
	_, err := sqldb.From(tx).Exec(resetFailed, version, tenant, collection)
	return err
}

// ListWeightsTx implements retrieval.Store.
func (s *Store) ListWeightsTx(tx txn.Tx, tenant, collection string) ([]retrieval.Weight, error) {
	rows, err := sqldb.From(tx).Query(`SELECT passage_id, boost, at FROM passages`+ofCollection, tenant, collection)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []retrieval.Weight
	for rows.Next() {
		var w retrieval.Weight
		var at int64
		if err := rows.Scan(&w.ID, &w.Boost, &at); err != nil {
			return nil, err
		}
		w.At = sqldb.Time(at)
		all = append(all, w)
	}
	return all, rows.Err()
}

// HasPendingTx implements retrieval.Store.
func (s *Store) HasPendingTx(tx txn.Tx, tenant, collection, model string) (bool, error) {
	var one int
	err := sqldb.From(tx).QueryRow(`SELECT 1 FROM passages`+ofCollection+` AND vector_model <> ? LIMIT 1`,
		tenant, collection, model).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// GetState implements retrieval.Store.
func (s *Store) GetState(ctx context.Context, tenant, collection string) (state retrieval.State, err error) {
	err = s.db.QueryRow(ctx, `SELECT version, removed FROM collections`+ofCollection, tenant, collection).Scan(&state.Version, &state.Removed)
	if errors.Is(err, sql.ErrNoRows) {
		return retrieval.State{}, nil
	}
	return state, err
}

// VisitChanged implements retrieval.Store.
func (s *Store) VisitChanged(ctx context.Context, tenant, collection string, after int64, each func(retrieval.Passage)) error {
	return s.visit(ctx, `, vector FROM passages`+ofCollection+` AND version > ?`, each, tenant, collection, after)
}

// ListIDs implements retrieval.Store.
func (s *Store) ListIDs(ctx context.Context, tenant, collection string) ([]string, error) {
	rows, err := s.db.Query(ctx, `SELECT passage_id FROM passages`+ofCollection, tenant, collection)
	if err != nil {
		return nil, err
	}
	return sqldb.ScanStrings(rows)
}

// ListByID implements retrieval.Store.
func (s *Store) ListByID(ctx context.Context, tenant, collection string, ids []string) (map[string]retrieval.Passage, error) {
	found := make(map[string]retrieval.Passage, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	in, args := sqldb.In(ids, tenant, collection)
	err := s.visit(ctx, `, NULL FROM passages`+ofCollection+` AND passage_id`+in,
		func(p retrieval.Passage) { found[p.ID] = p }, args...)
	return found, err
}

// ListAround implements retrieval.Store.
func (s *Store) ListAround(
	ctx context.Context, tenant, collection, source string, first, last int,
) (all []retrieval.Passage, err error) {
	const around = ` AND source_id = ? AND source_id <> '' AND position BETWEEN ? AND ? ORDER BY position`
	err = s.visit(ctx, `, NULL FROM passages`+ofCollection+around,
		func(p retrieval.Passage) { all = append(all, p) }, tenant, collection, source, first, last)
	return all, err
}

// ListPending implements retrieval.Store.
func (s *Store) ListPending(ctx context.Context, tenant, collection, model string, limit int) ([]retrieval.Passage, error) {
	var all []retrieval.Passage
	err := s.visit(ctx, `, NULL FROM passages`+ofCollection+` AND vector_model <> ? ORDER BY vector_model, passage_id LIMIT ?`,
		func(p retrieval.Passage) { all = append(all, p) }, tenant, collection, model, limit)
	return all, err
}

func (s *Store) visit(ctx context.Context, rest string, each func(retrieval.Passage), args ...any) error {
	rows, err := s.db.Query(ctx, `SELECT `+passageColumns+rest, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var p retrieval.Passage
		var at int64
		var vector []byte
		err := rows.Scan(
			&p.ID, &p.SourceID, &p.Position, &p.Kind, &p.Text, &p.Words, &p.Start, &p.Page, &p.Boost, &at, &p.Version, &p.Model, &vector)
		if err != nil {
			return err
		}
		p.At, p.Vector = sqldb.Time(at), decodeVector(vector)
		each(p)
	}
	return rows.Err()
}

// CountBySource implements retrieval.Store.
func (s *Store) CountBySource(ctx context.Context, tenant, collection, model string) (map[string]retrieval.Count, error) {
	rows, err := s.db.Query(ctx, countSources, model, model, tenant, collection)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]retrieval.Count{}
	for rows.Next() {
		var source string
		var c retrieval.Count
		if err := rows.Scan(&source, &c.Total, &c.Embedded, &c.Pending); err != nil {
			return nil, err
		}
		all[source] = c
	}
	return all, rows.Err()
}

// inBytes begins a vector that is stored as a byte for each number. Others are numbers of
// four bytes, none of which is infinite.
var inBytes = binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.Inf(1))))

// encodeVector returns the bytes of a vector, or nil for NULL.
func encodeVector(v []float32) any {
	values := textindex.Quantize(v)
	if values == nil {
		return nil
	}
	b := make([]byte, 0, len(inBytes)+len(values))
	b = append(b, inBytes...)
	for _, n := range values {
		b = append(b, byte(n))
	}
	return b
}

func decodeVector(b []byte) []float32 {
	if len(b) == 0 {
		return nil
	}
	if values, is := bytes.CutPrefix(b, inBytes); is {
		v := make([]float32, len(values))
		for i, n := range values {
			v[i] = float32(int8(n))
		}
		return v
	}
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}
