// Package memorysql keeps the memory of agents on SQL: entries and core blocks.
package memorysql

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/content/memory"
	"agentd/internal/store/sqldb"
)

// Store keeps memory entries and core blocks. It implements memory.Store.
type Store struct{ db *sqldb.DB }

var _ memory.Store = (*Store)(nil)

// New uses the tables of migration 6.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	entryColumns = `entry_id, tags, source_run_id, origin, content_hash, entity_key, entity_name, entity_type, run_outcome, metadata,
		access_count, accessed_at, created_at, sources`
	updatedColumns = `tags, content_hash, entity_key, entity_name, entity_type, metadata, accessed_at`
	blockColumns   = `label, content, max_tokens, updated_at`

	selectEntry = `SELECT e.entry_id, e.tags, e.source_run_id, e.entity_name, e.entity_type, e.run_outcome, e.metadata, e.access_count,
		e.accessed_at, e.created_at, e.sources, e.superseded_by, p.kind, p.text, p.boost, p.at
		FROM memory_entries e`
	withPassage = ` JOIN passages p ON p.tenant_id = e.tenant_id AND p.collection_id = e.agent_id AND p.passage_id = e.entry_id
		WHERE e.tenant_id = ? AND e.agent_id = ?`
	ofAgent      = ` WHERE tenant_id = ? AND agent_id = ?`
	selectBlocks = `SELECT ` + blockColumns + ` FROM memory_blocks` + ofAgent + ` ORDER BY label`
	recordAccess = `UPDATE memory_entries SET access_count = access_count + 1, accessed_at = ?` + ofAgent
)

var (
	insertEntry = sqldb.Insert(`memory_entries`, `tenant_id, agent_id, `+entryColumns)
	updateEntry = `UPDATE memory_entries SET ` + sqldb.Assign(updatedColumns) + `, superseded_by = ''` + ofAgent + ` AND entry_id = ?`
	putBlock    = sqldb.Insert(`memory_blocks`, `tenant_id, agent_id, `+blockColumns) +
		` ON CONFLICT (tenant_id, agent_id, label) DO UPDATE SET ` + sqldb.Excluded(`content, max_tokens, updated_at`)
)

// CreateTx implements memory.Store.
func (s *Store) CreateTx(tx txn.Tx, tenant, agent string, entries []memory.Stored) error {
	for i := range entries {
		e := &entries[i]
		var enc sqldb.Encoder
		var origin any
		if e.Origin != "" {
			origin = e.Origin
		}
		op := enc.Op("memory entry", insertEntry, tenant, agent, e.EntryID, enc.JSON(e.Tags), e.SourceRunID, origin, e.Hash, e.Entity,
			e.EntityName, e.EntityType, e.RunOutcome, enc.JSON(e.Metadata), e.AccessCount,
			sqldb.OptionalMicros(e.LastAccessedAt), sqldb.Micros(e.CreatedAt), sourcesJSON(&enc, e.Sources))
		if err := op(tx); err != nil {
			return err
		}
	}
	return nil
}

// UpdateTx implements memory.Store.
func (s *Store) UpdateTx(tx txn.Tx, tenant, agent string, e memory.Stored) error {
	var enc sqldb.Encoder
	return enc.Op("memory entry", updateEntry, enc.JSON(e.Tags), e.Hash, e.Entity, e.EntityName, e.EntityType, enc.JSON(e.Metadata),
		sqldb.OptionalMicros(e.LastAccessedAt), tenant, agent, e.EntryID)(tx)
}

// MarkSupersededTx implements memory.Store.
func (s *Store) MarkSupersededTx(tx txn.Tx, tenant, agent string, ids []string, by memory.Stored) error {
	trusted := 0
	if len(by.Sources) == 0 {
		trusted = 1
	}
	in, args := sqldb.In(ids, by.EntryID, tenant, agent)
	_, err := sqldb.From(tx).Exec(`UPDATE memory_entries SET superseded_by = ?`+ofAgent+` AND entry_id`+in+
		` AND entry_id <> ? AND superseded_by = '' AND entity_key = ? AND (? = 1 OR sources <> '')`,
		append(args, by.EntryID, by.Entity, trusted)...)
	return err
}

// DeleteTx implements memory.Store.
func (s *Store) DeleteTx(tx txn.Tx, tenant, agent string, ids []string) error {
	for _, id := range ids {
		_, err := sqldb.From(tx).Exec(`UPDATE memory_entries SET superseded_by = ''`+ofAgent+
			` AND superseded_by = ? AND superseded_by <> ''`, tenant, agent, id)
		if err != nil {
			return err
		}
		if _, err := sqldb.From(tx).Exec(`DELETE FROM memory_entries`+ofAgent+` AND entry_id = ?`, tenant, agent, id); err != nil {
			return err
		}
	}
	return nil
}

// DeleteAllTx implements memory.Store.
func (s *Store) DeleteAllTx(tx txn.Tx, tenant, agent string) error {
	for _, table := range []string{"memory_entries", "memory_blocks"} {
		if _, err := sqldb.From(tx).Exec(`DELETE FROM `+table+ofAgent, tenant, agent); err != nil {
			return err
		}
	}
	return nil
}

// CountTx implements memory.Store.
func (s *Store) CountTx(tx txn.Tx, tenant, agent string) (n int, err error) {
	err = sqldb.From(tx).QueryRow(`SELECT COUNT(*) FROM memory_entries`+ofAgent, tenant, agent).Scan(&n)
	return n, err
}

// GetByOriginTx implements memory.Store.
func (s *Store) GetByOriginTx(tx txn.Tx, tenant, agent, origin string) (id string, err error) {
	err = sqldb.From(tx).QueryRow(`SELECT entry_id FROM memory_entries`+ofAgent+` AND origin = ?`, tenant, agent, origin).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return id, err
}

// idsAtOnce is how many hashes or ids one statement names.
const idsAtOnce = 200

// ListKnownTx implements memory.Store.
func (s *Store) ListKnownTx(tx txn.Tx, tenant, agent string, hashes []string) (map[string]bool, error) {
	known := map[string]bool{}
	for from := 0; from < len(hashes); from += idsAtOnce {
		in, args := sqldb.In(hashes[from:min(from+idsAtOnce, len(hashes))], tenant, agent)
		rows, err := sqldb.From(tx).Query(`SELECT content_hash FROM memory_entries`+ofAgent+
			` AND superseded_by = '' AND content_hash`+in, args...)
		if err != nil {
			return nil, err
		}
		found, err := sqldb.ScanStrings(rows)
		if err != nil {
			return nil, err
		}
		for _, hash := range found {
			known[hash] = true
		}
	}
	return known, nil
}

// LockTx implements memory.Store. The passage is locked by its collection.
func (s *Store) LockTx(tx txn.Tx, tenant, agent, id string) (*memory.Entry, error) {
	return oneEntry(sqldb.From(tx).QueryRow(selectEntry+withPassage+` AND e.entry_id = ?`, tenant, agent, id), tenant, agent)
}

// RecordAccessTx implements memory.Store.
func (s *Store) RecordAccessTx(tx txn.Tx, tenant, agent string, ids []string, at time.Time) error {
	for from := 0; from < len(ids); from += idsAtOnce {
		in, args := sqldb.In(ids[from:min(from+idsAtOnce, len(ids))], sqldb.Micros(at), tenant, agent)
		_, err := sqldb.From(tx).Exec(recordAccess+` AND entry_id`+in, args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// Get implements memory.Store.
func (s *Store) Get(ctx context.Context, tenant, agent, id string) (*memory.Entry, error) {
	return oneEntry(s.db.QueryRow(ctx, selectEntry+withPassage+` AND e.entry_id = ?`, tenant, agent, id), tenant, agent)
}

// ListByRun implements memory.Store. An entry's origin begins with what made it, and the
// id of the run.
func (s *Store) ListByRun(ctx context.Context, tenant, agent, runID string, limit int) ([]memory.Entry, error) {
	var all []memory.Entry
	for _, made := range []string{"run/", "call/"} {
		some, err := sqldb.Collect(s.db.Reader(ctx), selectEntry+withPassage+` AND e.origin >= ? AND e.origin < ? ORDER BY e.origin LIMIT ?`,
			[]any{tenant, agent, made + runID + "/", made + runID + "0", limit - len(all)},
			func(row sqldb.Row) (memory.Entry, error) { return scanEntry(row, tenant, agent) })
		if all = append(all, some...); err != nil || len(all) >= limit {
			return all, err
		}
	}
	return all, nil
}

func oneEntry(row *sql.Row, tenant, agent string) (*memory.Entry, error) {
	e, err := scanEntry(row, tenant, agent)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NewNotFound("memory entry")
	}
	return &e, err
}

// ListByID implements memory.Store.
func (s *Store) ListByID(ctx context.Context, tenant, agent string, ids []string) (map[string]memory.Entry, error) {
	found := make(map[string]memory.Entry, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	in, args := sqldb.In(ids, tenant, agent)
	entries, err := s.entries(ctx, tenant, agent, selectEntry+withPassage+` AND e.entry_id`+in, args...)
	for _, e := range entries {
		found[e.EntryID] = e
	}
	return found, err
}

// List implements memory.Store.
func (s *Store) List(ctx context.Context, tenant, agent, entity, after string, limit int) ([]memory.Entry, error) {
	where, args := withPassage, []any{tenant, agent}
	if entity != "" {
		where, args = where+` AND e.entity_key = ? AND e.entity_key <> ''`, append(args, entity)
	}
	if after != "" {
		where, args = where+` AND e.entry_id < ?`, append(args, after)
	}
	text := selectEntry + where + ` ORDER BY e.entry_id DESC LIMIT ?`
	return s.entries(ctx, tenant, agent, text, append(args, limit)...)
}

// Count implements memory.Store.
func (s *Store) Count(ctx context.Context, tenant, agent, entity string) (n int, err error) {
	q, args := `SELECT COUNT(*) FROM memory_entries`+ofAgent, []any{tenant, agent}
	if entity != "" {
		q, args = q+` AND entity_key = ? AND entity_key <> ''`, append(args, entity)
	}
	err = s.db.QueryRow(ctx, q, args...).Scan(&n)
	return n, err
}

func (s *Store) entries(ctx context.Context, tenant, agent, query string, args ...any) ([]memory.Entry, error) {
	rows, err := s.db.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []memory.Entry{}
	for rows.Next() {
		e, err := scanEntry(rows, tenant, agent)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, rows.Err()
}

// sourcesJSON is empty for the many entries without sources.
func sourcesJSON(enc *sqldb.Encoder, sources []string) string {
	if len(sources) == 0 {
		return ""
	}
	return enc.JSON(sources)
}

func scanEntry(row sqldb.Row, tenant, agent string) (memory.Entry, error) {
	e := memory.Entry{TenantID: tenant, AgentID: agent}
	var tags, metadata, sources, kind, text string
	var accessed, created, at int64
	var boost float64
	err := row.Scan(&e.EntryID, &tags, &e.SourceRunID, &e.EntityName, &e.EntityType, &e.RunOutcome, &metadata, &e.AccessCount,
		&accessed, &created, &sources, &e.SupersededBy, &kind, &text, &boost, &at)
	if err != nil {
		return e, err
	}
	e.LastAccessedAt, e.CreatedAt = sqldb.OptionalTime(accessed), sqldb.Time(created)
	if sources != "" {
		if err := json.Unmarshal([]byte(sources), &e.Sources); err != nil {
			return e, err
		}
	}
	e.InPassage(kind, text, boost, sqldb.Time(at))
	if err := json.Unmarshal([]byte(tags), &e.Tags); err != nil {
		return e, err
	}
	return e, json.Unmarshal([]byte(metadata), &e.Metadata)
}

// ListBlocks implements memory.Store.
func (s *Store) ListBlocks(ctx context.Context, tenant, agent string) ([]memory.Block, error) {
	rows, err := s.db.Query(ctx, selectBlocks, tenant, agent)
	return scanBlocks(rows, err)
}

// ListBlocksTx implements memory.Store.
func (s *Store) ListBlocksTx(tx txn.Tx, tenant, agent string) ([]memory.Block, error) {
	rows, err := sqldb.From(tx).Query(selectBlocks, tenant, agent)
	return scanBlocks(rows, err)
}

func scanBlocks(rows *sql.Rows, err error) ([]memory.Block, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []memory.Block
	for rows.Next() {
		var b memory.Block
		var updated int64
		if err := rows.Scan(&b.Label, &b.Content, &b.MaxTokens, &updated); err != nil {
			return nil, err
		}
		b.UpdatedAt = sqldb.OptionalTime(updated)
		all = append(all, b)
	}
	return all, rows.Err()
}

// PutBlockTx implements memory.Store.
func (s *Store) PutBlockTx(tx txn.Tx, tenant, agent string, b memory.Block) error {
	_, err := sqldb.From(tx).Exec(putBlock,
		tenant, agent, b.Label, b.Content, b.MaxTokens, sqldb.OptionalMicros(b.UpdatedAt))
	return err
}
