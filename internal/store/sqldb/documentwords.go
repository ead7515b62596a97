package sqldb

import (
	"context"
	"database/sql"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/tokenize"
)

// The numbers of the migrations that let the documents that are there be found by
// the words of their names. They are written in Go, since SQL has no words. The first
// fills the table of migration 71, which has a row for every beginning of a word; the
// second puts a table with fewer rows in its place.
const (
	documentWordsVersion    = 72
	fewDocumentWordsVersion = 73
)

// everyBeginning is the table of migration 71.
const everyBeginning = `CREATE TABLE document_words (
    kind      TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    word      TEXT NOT NULL,
    id        TEXT NOT NULL,
    PRIMARY KEY (kind, tenant_id, word, id)
) WITHOUT ROWID`

// fewBeginnings is the table of migration 73: see resourcesql.
const fewBeginnings = `CREATE TABLE document_words (
    kind      TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    begin     TEXT NOT NULL, -- the first characters of a word
    id        TEXT NOT NULL,
    words     TEXT NOT NULL, -- all of the document, each behind a space
    PRIMARY KEY (kind, tenant_id, begin, id)
) WITHOUT ROWID`

// namedKinds are the kinds that had names then.
const namedKinds = `('agent', 'customer', 'guardrail', 'knowledge_base', 'mcp_server')`

// namedDocument is a document with a name.
type namedDocument struct{ kind, tenant, id, name string }

func (d namedDocument) words() []string { return tokenize.Distinct(d.name, 16, 16) }

// addWords is migration 72.
func (db *DB) addWords(ctx context.Context, tx *sql.Tx) error {
	return db.eachNamed(ctx, tx, func(d namedDocument) error {
		for _, word := range everyBeginningOf(d.words()) {
			if err := db.exec(ctx, tx, `INSERT INTO document_words (kind, tenant_id, word, id) VALUES (?, ?, ?, ?)`,
				d.kind, d.tenant, word, d.id); err != nil {
				return err
			}
		}
		return nil
	})
}

func everyBeginningOf(words []string) (all []string) {
	has := map[string]bool{}
	for _, word := range words {
		for i, r := range word {
			if begin := word[:i+len(string(r))]; !has[begin] {
				has[begin] = true
				all = append(all, begin)
			}
		}
	}
	return all
}

// fewWords is migration 73.
func (db *DB) fewWords(ctx context.Context, tx *sql.Tx) error {
	err := db.define(ctx, tx, `DROP TABLE document_words`, fewBeginnings, `ALTER TABLE documents ADD COLUMN words TEXT NOT NULL DEFAULT ''`)
	if err != nil {
		return err
	}
	return db.eachNamed(ctx, tx, func(d namedDocument) error {
		if len(d.words()) == 0 {
			return nil
		}
		words := " " + strings.Join(d.words(), " ")
		for _, begin := range tokenize.Beginnings(d.words()) {
			if err := db.exec(ctx, tx, `INSERT INTO document_words (kind, tenant_id, begin, id, words) VALUES (?, ?, ?, ?, ?)`,
				d.kind, d.tenant, begin, d.id, words); err != nil {
				return err
			}
		}
		return db.exec(ctx, tx, `UPDATE documents SET words = ? WHERE kind = ? AND tenant_id = ? AND id = ?`, words, d.kind, d.tenant, d.id)
	})
}

// everyWord takes migration 73 back.
func (db *DB) everyWord(ctx context.Context, tx *sql.Tx) error {
	err := db.define(ctx, tx, `DROP TABLE document_words`, everyBeginning,
		`CREATE INDEX document_words_id ON document_words (kind, tenant_id, id)`, `ALTER TABLE documents DROP COLUMN words`)
	if err != nil {
		return err
	}
	return db.addWords(ctx, tx)
}

// define changes the schema by texts as migrations have them.
func (db *DB) define(ctx context.Context, tx *sql.Tx, texts ...string) error {
	for _, text := range texts {
		if _, err := tx.ExecContext(ctx, string(dialectFS{postgres: db.Postgres()}.translate([]byte(text)))); err != nil {
			return err
		}
	}
	return nil
}

// eachNamed calls do with the documents that have names, a page of them at a time.
func (db *DB) eachNamed(ctx context.Context, tx *sql.Tx, do func(namedDocument) error) error {
	var last namedDocument
	for {
		page, err := db.namedDocuments(ctx, tx, last)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, d := range page {
			if err := do(d); err != nil {
				return err
			}
		}
		last = page[len(page)-1]
	}
}

// namedDocuments reads the documents after another, in the order of their keys.
func (db *DB) namedDocuments(ctx context.Context, tx *sql.Tx, after namedDocument) (page []namedDocument, err error) {
	rows, err := tx.QueryContext(ctx, db.placeholders(`SELECT kind, tenant_id, id, body FROM documents
		WHERE (kind, tenant_id, id) > (?, ?, ?) AND kind IN `+namedKinds+` ORDER BY kind, tenant_id, id LIMIT 200`),
		after.kind, after.tenant, after.id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var d namedDocument
		var body []byte
		if err := rows.Scan(&d.kind, &d.tenant, &d.id, &body); err != nil {
			return nil, err
		}
		var named struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(body, &named) == nil {
			d.name = named.Name
		}
		page = append(page, d)
	}
	return page, rows.Err()
}

// exec runs a statement of a migration.
func (db *DB) exec(ctx context.Context, tx *sql.Tx, text string, args ...any) error {
	_, err := tx.ExecContext(ctx, db.placeholders(text), args...)
	return err
}

// placeholders returns a text as the migrations' connections take it.
func (db *DB) placeholders(text string) string {
	if db.Postgres() {
		return dollars(text)
	}
	return text
}
