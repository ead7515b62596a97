package sqldb

import (
	"context"
	"database/sql"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/tokenize"
)

// documentWordsVersion is the number of the migration that lets the documents that
// are there be found by the words of their names. It is written in Go, since SQL has
// no words.
const documentWordsVersion = 72

// namedKinds are the kinds that had names then.
const namedKinds = `('agent', 'customer', 'guardrail', 'knowledge_base', 'mcp_server')`

// namedDocument is a document with a name.
type namedDocument struct{ kind, tenant, id, name string }

// addWords fills document_words, a page of documents at a time.
func (db *DB) addWords(ctx context.Context, tx *sql.Tx) error {
	var last namedDocument
	for {
		page, err := db.namedDocuments(ctx, tx, last)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, d := range page {
			if err := db.addWordsOf(ctx, tx, d); err != nil {
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

func (db *DB) addWordsOf(ctx context.Context, tx *sql.Tx, d namedDocument) error {
	for _, word := range tokenize.Beginnings(tokenize.Distinct(d.name, 16, 16)) {
		if _, err := tx.ExecContext(ctx, db.placeholders(`INSERT INTO document_words (kind, tenant_id, word, id) VALUES (?, ?, ?, ?)`),
			d.kind, d.tenant, word, d.id); err != nil {
			return err
		}
	}
	return nil
}

// placeholders returns a text as the migrations' connections take it.
func (db *DB) placeholders(text string) string {
	if db.Postgres() {
		return dollars(text)
	}
	return text
}
