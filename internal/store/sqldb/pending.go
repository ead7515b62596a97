package sqldb

import (
	"context"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Pending is a migration that a database does not have yet.
type Pending struct {
	Number int64    `json:"number"`
	Name   string   `json:"name"`
	Does   []string `json:"does"`  // in words, a statement each
	Waits  []string `json:"waits"` // tables whose writes wait until it is done
}

// Applied returns the numbers of the migrations that a database has, none where it is
// empty.
func (db *DB) Applied(ctx context.Context) ([]int64, error) {
	if version, err := db.Version(ctx); err != nil || version == 0 {
		return nil, err
	}
	return Collect(db.Reader(ctx), `SELECT DISTINCT version_id FROM goose_db_version WHERE version_id > 0 ORDER BY version_id`, nil,
		func(r Row) (n int64, err error) { return n, r.Scan(&n) })
}

// newer returns ErrNewer if a program of which this one knows nothing has migrated the
// database. Numbers may have come in another order than they have.
func newer(applied []int64) error {
	known := numbers()
	for _, n := range applied {
		if !slices.Contains(known, n) {
			return fmt.Errorf("%w (it has the migration %d, of which this program does not know)", ErrNewer, n)
		}
	}
	return nil
}

// inGo says what the migrations do that are written in Go.
var inGo = map[int64]string{
	rowidVersion:            "copies the tables of runs, steps, events, sessions, agents and approvals, on SQLite",
	documentWordsVersion:    "adds the words by which agents and other resources are found",
	fewDocumentWordsVersion: "removes words by which nothing is found",
}

// ListPending lists the migrations that a database with tables does not have, in their
// order. Errors: ErrNewer.
func ListPending(ctx context.Context, db *DB) ([]Pending, error) {
	applied, err := db.Applied(ctx)
	if err != nil {
		return nil, err
	}
	if err := newer(applied); err != nil {
		return nil, err
	}
	return pendingOf(applied, db.Postgres())
}

// pendingOf describes the migrations that are not applied.
func pendingOf(applied []int64, postgres bool) ([]Pending, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var pending []Pending
	made := map[string]bool{} // tables that nobody writes to yet
	for _, n := range slices.Sorted(slices.Values(numbers())) {
		if slices.Contains(applied, n) {
			continue
		}
		p := Pending{Number: n, Does: []string{}, Waits: []string{}}
		if text := inGo[n]; text != "" {
			p.Name, p.Does = "in_go", []string{text}
		}
		for _, path := range names {
			number, name, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(path, "migrations/"), ".sql"), "_")
			if v, _ := strconv.ParseInt(number, 10, 64); v != n {
				continue
			}
			text, err := migrations.ReadFile(path)
			if err != nil {
				return nil, err
			}
			p.Name = name
			p.describe(string(dialectFS{postgres: postgres}.translate(text)), made)
		}
		pending = append(pending, p)
	}
	return pending, nil
}

var (
	comment   = regexp.MustCompile(`(?m)--.*$`)
	statement = regexp.MustCompile(`(?i)^\s*(CREATE TABLE|CREATE VIRTUAL TABLE|CREATE (?:UNIQUE )?INDEX \w+ ON|ALTER TABLE|` +
		`UPDATE|INSERT INTO|DELETE FROM|DROP TABLE|DROP INDEX|DROP TRIGGER|CREATE TRIGGER)` +
		`\s+(?:IF (?:NOT )?EXISTS\s+)?"?(\w+)"?\s*(?:(ADD|DROP|RENAME)(?:\s+COLUMN)?\s+(\w+))?`)
	columnVerbs = map[string]string{"ADD": "adds the column ", "DROP": "drops the column ", "RENAME": "renames the column "}
)

// describe adds what the statements of a migration do.
func (p *Pending) describe(text string, made map[string]bool) {
	_, up, _ := strings.Cut(text, "-- +goose Up")
	up, _, _ = strings.Cut(up, "-- +goose Down")
	for part := range strings.SplitSeq(comment.ReplaceAllString(up, ""), ";") {
		match := statement.FindStringSubmatch(part)
		if match == nil {
			continue
		}
		verb, name, waits := strings.ToUpper(match[1]), match[2], true
		var does string
		switch {
		case strings.HasSuffix(verb, " TABLE") && strings.HasPrefix(verb, "CREATE"):
			does, waits, made[name] = "makes the table "+name, false, true
		case strings.HasPrefix(verb, "CREATE") && strings.HasSuffix(verb, " ON"):
			does = "makes an index of " + name
		case verb == "ALTER TABLE" && match[3] != "":
			does = columnVerbs[strings.ToUpper(match[3])] + match[4] + " of " + name
		case verb == "ALTER TABLE":
			does = "changes the table " + name
		case verb == "DROP TABLE":
			does = "drops the table " + name
		case verb == "UPDATE":
			does = "changes rows of " + name
		case verb == "INSERT INTO":
			does = "adds rows to " + name
		case verb == "DELETE FROM":
			does = "deletes rows of " + name
		default: // of indexes and triggers
			does, waits = strings.ToLower(verb)+" "+name, false
		}
		p.Does = append(p.Does, does)
		if waits && !made[name] && !slices.Contains(p.Waits, name) {
			p.Waits = append(p.Waits, name)
		}
	}
	if len(p.Does) == 0 {
		p.Does = append(p.Does, "changes no table")
	}
}
