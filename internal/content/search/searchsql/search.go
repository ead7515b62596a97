// Package searchsql keeps the search index on SQLite's FTS5 and PostgreSQL's tsvector.
package searchsql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base32"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/content/search"
	"agentd/internal/store/sqldb"
)

// Store is the search index. It implements search.Store.
//
// The words are in SQLite's FTS5 and in PostgreSQL's tsvector. Each is stored
// as a token with a prefix: eight characters of a hash of the tenant, a letter
// of the kind, and the number of a block of documents. So a search reads no
// tokens of other tenants, however many those have, and only as many blocks of
// its own as it needs, the newest first.
type Store struct{ db *sqldb.DB }

var _ search.Store = (*Store)(nil)

// New uses the tables of migration 21.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	// blockSize is how many documents share a prefix. A search for the beginning
	// of a word reads all words of a block that begin so.
	blockSize = 4096
	// maxBlocks is how many blocks one statement searches.
	maxBlocks = 32

	numberDocs = `INSERT INTO search_numbers (tenant_id, kind, last) VALUES (?, ?, ?)
ON CONFLICT (tenant_id, kind) DO UPDATE SET last = search_numbers.last + excluded.last RETURNING last`
	lastDoc     = `SELECT last FROM search_numbers WHERE tenant_id = ? AND kind = ?`
	dropDoc     = `DELETE FROM search_docs WHERE tenant_id = ? AND kind = ? AND thing_id = ?`
	dropOlder   = dropDoc + ` AND version <= ?`
	insertWords = `INSERT INTO search_words (rowid, terms) VALUES (?, ?)`

	findDocs = `SELECT d.thing_id, d.parent_id, d.at FROM search_words w JOIN search_docs d ON d.doc_id = w.rowid
WHERE w.search_words MATCH ? AND d.tenant_id = ? AND d.kind = ? ORDER BY w.rowid DESC LIMIT ?`
	// MATERIALIZED keeps the planner from walking the documents of all tenants in
	// order until enough of them match.
	findDocsPG = `WITH found AS MATERIALIZED (SELECT doc_id FROM search_words WHERE terms @@ ?::tsquery)
SELECT d.thing_id, d.parent_id, d.at FROM found JOIN search_docs d ON d.doc_id = found.doc_id
WHERE d.tenant_id = ? AND d.kind = ? ORDER BY d.doc_id DESC LIMIT ?`

	// The page is cut before its documents are looked up, one by one: a join would read
	// all documents as long as PostgreSQL knows nothing of the table's size.
	endedAfter = `SELECT e.completed_at, e.tenant_id, e.run_id,
	(SELECT d.doc_id FROM search_docs d WHERE d.tenant_id = e.tenant_id AND d.kind = 'run' AND d.thing_id = e.run_id) IS NOT NULL
FROM (SELECT completed_at, tenant_id, run_id FROM runs WHERE completed_at > 0 AND (completed_at, tenant_id, run_id) > (?, ?, ?)
	AND completed_at <= ? ORDER BY completed_at, tenant_id, run_id LIMIT ?) e
ORDER BY e.completed_at, e.tenant_id, e.run_id`
)

var insertDoc = sqldb.Insert(`search_docs`, `tenant_id, kind, thing_id, parent_id, version, at`) +
	` ON CONFLICT DO NOTHING RETURNING doc_id`

// insertDocPG inserts a document with its words, so that nothing waits for its number.
var insertDocPG = `WITH put AS (` + insertDoc + `) INSERT INTO search_words (doc_id, terms) SELECT doc_id, ?::tsvector FROM put`

var putMark = sqldb.Insert(`search_marks`, `name, at, tenant_id, thing_id`) +
	` ON CONFLICT (name) DO UPDATE SET ` + sqldb.Excluded(`at, tenant_id, thing_id`)

// letters are the letters of each kind: of titles, and of all words.
var letters = map[search.Kind][2]string{
	search.Agent: {"b", "a"}, search.Session: {"t", "s"}, search.Run: {"q", "r"},
}

// prefix returns what the tokens of a block begin with. All blocks have the same
// number of digits, so that no prefix begins with another.
func prefix(tenant string, kind search.Kind, titles bool, block int64) string {
	sum := sha256.Sum256([]byte(tenant))
	which := 1
	if titles {
		which = 0
	}
	owner := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))
	digits := strconv.FormatInt(block, 36)
	return owner + letters[kind][which] + strings.Repeat("0", max(0, 5-len(digits))) + digits
}

// plain returns a token without the characters that the engines interpret. Words
// of package textindex contain none.
func plain(word string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == '"' || r == '\'' || r == '\\' || r == 0x7F {
			return -1
		}
		return r
	}, word)
}

// PutTx implements search.Store. The numbers of the tenant's documents of the
// kind are locked until commit.
func (s *Store) PutTx(tx txn.Tx, tenant string, kind search.Kind, docs []search.Doc) error {
	t := sqldb.From(tx)
	var last int64
	if err := t.QueryRow(numberDocs, tenant, string(kind), len(docs)).Scan(&last); err != nil {
		return err
	}
	first := last - int64(len(docs))
	for i := range docs {
		if err := s.put(t, tenant, kind, &docs[i], (first+int64(i))/blockSize); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) put(t *sqldb.Tx, tenant string, kind search.Kind, d *search.Doc, block int64) error {
	if err := t.Queue(dropOlder, tenant, string(kind), d.ID, d.Version); err != nil {
		return err
	}
	doc := []any{tenant, string(kind), d.ID, d.Parent, d.Version, sqldb.Micros(d.At)}
	if t.Postgres() {
		return t.Queue(insertDocPG, append(doc, terms(tenant, kind, d, block, "'"))...)
	}
	var id int64
	err := t.QueryRow(insertDoc, doc...).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // there is a later one
	}
	if err != nil || len(d.Words) == 0 {
		return err
	}
	_, err = t.Exec(insertWords, id, terms(tenant, kind, d, block, ""))
	return err
}

// terms returns the tokens of a document, each between quotes.
func terms(tenant string, kind search.Kind, d *search.Doc, block int64, quote string) string {
	var b strings.Builder
	for _, of := range []struct {
		titles bool
		words  []string
	}{{true, d.Title}, {false, d.Words}} {
		mark := prefix(tenant, kind, of.titles, block)
		for _, word := range of.words {
			b.WriteString(quote + mark)
			b.WriteString(plain(word))
			b.WriteString(quote + " ")
		}
	}
	return b.String()
}

// DeleteTx implements search.Store.
func (s *Store) DeleteTx(tx txn.Tx, tenant string, kind search.Kind, id string) error {
	_, err := sqldb.From(tx).Exec(dropDoc, tenant, string(kind), id)
	return err
}

// Search implements search.Store. Words that are common are found in the newest
// block; for those that are not, more and more blocks are looked at together.
// What the time did not suffice for is left out.
func (s *Store) Search(ctx context.Context, tenant string, w search.Want) ([]search.Hit, error) {
	var last int64
	err := s.db.QueryRow(ctx, lastDoc, tenant, string(w.Kind)).Scan(&last)
	if errors.Is(err, sql.ErrNoRows) || err == nil && (last == 0 || len(w.Words) == 0) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var hits []search.Hit
	var blocks []int64
	most := 1
	for block := (last - 1) / blockSize; block >= 0 && len(hits) < w.Limit && ctx.Err() == nil; block-- {
		has, err := s.has(ctx, tenant, w, block, last)
		if err == nil && has {
			blocks = append(blocks, block)
		}
		if err == nil && len(blocks) > 0 && (len(blocks) == most || block == 0) {
			var more []search.Hit
			more, err = s.find(ctx, tenant, w, blocks, w.Limit-len(hits))
			hits, blocks, most = append(hits, more...), blocks[:0], min(2*most, maxBlocks)
		}
		if err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	return hits, nil
}

// has reports whether a block is worth searching. A search for the beginning of
// a word is expensive, for whole words it is cheap: so of several words, all but
// the last are looked up first.
func (s *Store) has(ctx context.Context, tenant string, w search.Want, block, last int64) (bool, error) {
	if len(w.Words) == 1 || last <= blockSize {
		return true, nil
	}
	query := `SELECT EXISTS (SELECT 1 FROM search_words w WHERE w.search_words MATCH ?)`
	if s.db.Postgres() {
		query = `WITH found AS MATERIALIZED (SELECT doc_id FROM search_words WHERE terms @@ ?::tsquery) SELECT EXISTS (SELECT 1 FROM found)`
	}
	w.Words = w.Words[:len(w.Words)-1]
	var found bool
	err := s.db.QueryRow(ctx, query, s.expression(tenant, w, []int64{block}, false)).Scan(&found)
	return found, err
}

// find looks at blocks, the newest first.
func (s *Store) find(ctx context.Context, tenant string, w search.Want, blocks []int64, limit int) ([]search.Hit, error) {
	query := findDocs
	if s.db.Postgres() {
		query = findDocsPG
	}
	args := []any{s.expression(tenant, w, blocks, true), tenant, string(w.Kind), limit}
	return sqldb.Collect(s.db.Reader(ctx), query, args, func(row sqldb.Row) (h search.Hit, err error) {
		var at int64
		err = row.Scan(&h.ID, &h.Parent, &at)
		h.At = sqldb.Time(at)
		return h, err
	})
}

// expression is the engine's for: one of the blocks has all the words, of
// which the last one may be the beginning of another.
func (s *Store) expression(tenant string, w search.Want, blocks []int64, begins bool) string {
	quote, star, and, or := `"`, ` *`, " AND ", " OR "
	if s.db.Postgres() {
		quote, star, and, or = `'`, `:*`, " & ", " | "
	}
	if !begins {
		star = ""
	}
	var b strings.Builder
	for i, block := range blocks {
		if i > 0 {
			b.WriteString(or)
		}
		mark := prefix(tenant, w.Kind, w.Titles, block)
		b.WriteByte('(')
		for i, word := range w.Words {
			if i > 0 {
				b.WriteString(and)
			}
			b.WriteString(quote + mark + plain(word) + quote)
		}
		b.WriteString(star + ")")
	}
	return b.String()
}

// ListEnded implements search.Store.
func (s *Store) ListEnded(ctx context.Context, after search.Mark, until time.Time, limit int) ([]search.Place, error) {
	return ended(s.db.Reader(ctx), after, until, limit)
}

// ListEndedTx implements search.Store.
func (s *Store) ListEndedTx(tx txn.Tx, after search.Mark, limit int) ([]search.Place, error) {
	return ended(sqldb.From(tx).Query, after, time.Time{}, limit)
}

func ended(query sqldb.QueryFunc, after search.Mark, until time.Time, limit int) ([]search.Place, error) {
	end := int64(1)<<62 - 1
	if !until.IsZero() {
		end = sqldb.Micros(until)
	}
	args := []any{sqldb.Micros(after.At), after.TenantID, after.ID, end, limit}
	return sqldb.Collect(query, endedAfter, args, func(row sqldb.Row) (p search.Place, err error) {
		var at int64
		err = row.Scan(&at, &p.TenantID, &p.ID, &p.Known)
		p.At = sqldb.Time(at)
		return p, err
	})
}

// ListThings implements search.Store.
func (s *Store) ListThings(ctx context.Context, kind search.Kind, after search.Mark, limit int) ([]search.Mark, error) {
	var query string
	switch kind {
	case search.Agent:
		query = `SELECT tenant_id, id FROM documents WHERE kind = 'agent' AND (tenant_id, id) > (?, ?) ORDER BY tenant_id, id LIMIT ?`
	case search.Session:
		query = `SELECT tenant_id, session_id FROM sessions WHERE (tenant_id, session_id) > (?, ?) ORDER BY tenant_id, session_id LIMIT ?`
	default:
		return nil, fmt.Errorf("searchsql: there is no list of all %ss", kind)
	}
	return sqldb.Collect(s.db.Reader(ctx), query, []any{after.TenantID, after.ID, limit}, func(row sqldb.Row) (m search.Mark, err error) {
		err = row.Scan(&m.TenantID, &m.ID)
		return m, err
	})
}

// GetMark implements search.Store.
func (s *Store) GetMark(ctx context.Context, name string) (m search.Mark, err error) {
	var at int64
	err = s.db.QueryRow(ctx, `SELECT at, tenant_id, thing_id FROM search_marks WHERE name = ?`, name).Scan(&at, &m.TenantID, &m.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return m, nil
	}
	m.At = sqldb.Time(at)
	return m, err
}

// PutMarkTx implements search.Store.
func (s *Store) PutMarkTx(tx txn.Tx, name string, m search.Mark) error {
	_, err := sqldb.From(tx).Exec(putMark, name, sqldb.Micros(m.At), m.TenantID, m.ID)
	return err
}
