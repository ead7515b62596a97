package resourcesql

import (
	"database/sql"
	"errors"
	"slices"
	"strings"

	"agentd/internal/base/tokenize"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
	"agentd/internal/store/sqldb"
)

// The table document_words has a row for some beginnings of the words of a document,
// so that a list by the beginnings of words walks one index in the order of its ids,
// however many words begin so. A row has all words of its document, by which a list
// drops those of which another beginning is looked for. The document has its words as
// well: they are the keys of its rows.

const (
	insertWords = `INSERT INTO document_words (kind, tenant_id, begin, id, words) VALUES (?, ?, ?, ?, ?)`
	moreValues  = `, (?, ?, ?, ?, ?)`
	getWords    = `SELECT words FROM documents` + documentKey
	deleteWords = `DELETE FROM document_words` + documentKey + ` AND begin IN (?`
)

// wordsValue returns what a column stores for words: each behind a space.
func wordsValue(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return " " + strings.Join(words, " ")
}

// insertWordRows stores the rows of a document.
func insertWordRows(tx txn.Tx, kind, tenant, id, words string) error {
	begins := tokenize.Beginnings(strings.Fields(words))
	if len(begins) == 0 {
		return nil
	}
	args := make([]any, 0, 5*len(begins))
	for _, begin := range begins {
		args = append(args, kind, tenant, begin, id, words)
	}
	_, err := sqldb.From(tx).Exec(insertWords+strings.Repeat(moreValues, len(begins)-1), args...)
	return err
}

// replaceWordRows stores the rows of a document whose words change.
func replaceWordRows(tx txn.Tx, kind, tenant, id, was, words string) error {
	if was == words {
		return nil
	}
	if err := deleteWordRows(tx, kind, tenant, id, was); err != nil {
		return err
	}
	return insertWordRows(tx, kind, tenant, id, words)
}

func deleteWordRows(tx txn.Tx, kind, tenant, id, words string) error {
	begins := tokenize.Beginnings(strings.Fields(words))
	if len(begins) == 0 {
		return nil
	}
	args := []any{kind, tenant, id}
	for _, begin := range begins {
		args = append(args, begin)
	}
	_, err := sqldb.From(tx).Exec(deleteWords+strings.Repeat(`, ?`, len(begins)-1)+`)`, args...)
	return err
}

// storedWords returns the words of a document that is there.
func storedWords(tx txn.Tx, kind, tenant, id string) (words string, err error) {
	err = sqldb.From(tx).QueryRow(getWords, kind, tenant, id).Scan(&words)
	if errors.Is(err, sql.ErrNoRows) {
		return "", resource.ErrStale
	}
	return words, err
}

// fromWords returns what a list by words reads from: the documents that have the
// longest word, which most likely finds the fewest, and all the others.
func fromWords(q resource.Query, args []any) (from, id string, all []any) {
	first := longest(q.Words)
	begin := tokenize.Beginning(first)
	var others strings.Builder
	args = append(args, q.Kind, q.Tenant, begin)
	for _, word := range q.Words {
		if word != first || word != begin {
			others.WriteString(` AND words LIKE ?`) // words have no wildcards: they are letters and digits
			args = append(args, "% "+word+"%")
		}
	}
	return `(SELECT id AS word_id FROM document_words WHERE kind = ? AND tenant_id = ? AND begin = ?` + others.String() + `) AS found
		CROSS JOIN documents`, "word_id", args
}

func longest(words []string) string {
	return slices.MaxFunc(words, func(a, b string) int { return len(a) - len(b) })
}
