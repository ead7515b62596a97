package resourcesql

import (
	"slices"
	"strings"

	"agentd/internal/base/tokenize"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
	"agentd/internal/store/sqldb"
)

// The table document_words has a row for every beginning of every word of a
// document, so that a list by the beginning of a word walks one index in the order
// of its ids, however many words begin so.

const (
	deleteWords = `DELETE FROM document_words` + documentKey
	insertWords = `INSERT INTO document_words (kind, tenant_id, word, id) VALUES (?, ?, ?, ?)`
	hasWord     = ` AND EXISTS (SELECT 1 FROM document_words AS other
		WHERE other.kind = ? AND other.tenant_id = ? AND other.word = ? AND other.id = word_id)`
)

// putWords stores the words of a document, in place of others where it had some.
func putWords(tx txn.Tx, doc *resource.Doc, replace bool) error {
	if replace {
		if err := dropWords(tx, doc.Kind, doc.Tenant, doc.ID); err != nil {
			return err
		}
	}
	var args []any
	for _, begin := range tokenize.Beginnings(doc.Words) {
		args = append(args, doc.Kind, doc.Tenant, begin, doc.ID)
	}
	if len(args) == 0 {
		return nil
	}
	_, err := sqldb.From(tx).Exec(insertWords+strings.Repeat(`, (?, ?, ?, ?)`, len(args)/4-1), args...)
	return err
}

func dropWords(tx txn.Tx, kind, tenant, id string) error {
	_, err := sqldb.From(tx).Exec(deleteWords, kind, tenant, id)
	return err
}

// fromWords returns what a list by words reads from: the documents that have the
// longest word, which most likely finds the fewest.
func fromWords(q resource.Query, args []any) (from, id string, all []any) {
	return `(SELECT id AS word_id FROM document_words WHERE kind = ? AND tenant_id = ? AND word = ?) AS found
		CROSS JOIN documents`, "word_id", append(args, q.Kind, q.Tenant, longest(q.Words))
}

// moreWords adds the conditions of such a list: which document a row of
// document_words belongs to, and its other words.
func moreWords(q resource.Query, where *strings.Builder, args []any) []any {
	where.WriteString(` AND id = word_id`)
	first := longest(q.Words)
	for _, word := range q.Words {
		if word != first {
			where.WriteString(hasWord)
			args = append(args, q.Kind, q.Tenant, word)
		}
	}
	return args
}

func longest(words []string) string {
	return slices.MaxFunc(words, func(a, b string) int { return len(a) - len(b) })
}
