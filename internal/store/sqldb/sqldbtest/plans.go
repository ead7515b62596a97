package sqldbtest

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentd/internal/store/sqldb"
)

// Every test database of this package records the statements that it is sent.
// When the test ends, each new one is explained on a large database of its
// engine; see [RefusedPlans]. So the suite of a store is the test of its plans.

// Statement is a statement and the arguments that it was sent with.
type Statement struct {
	Text string
	Args []any
}

// recorder collects statements, each text once. Tests write from several
// goroutines.
type recorder struct {
	mu   sync.Mutex
	seen map[string]bool
	all  []Statement
}

func (r *recorder) sent(text string, args []any) {
	if !planned.MatchString(text) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[text] {
		return
	}
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	r.seen[text] = true
	if byTest() {
		return
	}
	r.all = append(r.all, Statement{text, slices.Clone(args)})
}

// byTest reports whether a test sends the statement that is being recorded: what
// tests look at is not read in production.
func byTest() bool {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		frame, more := frames.Next()
		if dir := filepath.Dir(frame.File); !more || filepath.Base(dir) != "sqldb" {
			return strings.HasSuffix(frame.File, "_test.go") || strings.HasSuffix(dir, "test")
		}
	}
}

// planned matches statements that look for rows. Others, such as an INSERT of
// values, have no plan.
var planned = regexp.MustCompile(`(?is)^\s*(SELECT|WITH|UPDATE|DELETE|INSERT.*\sSELECT)\s.*\s(FROM|SET|WHERE)\s`)

// explained has the statements that a test of this process had explained.
var explained sync.Map // engine and text

// watchPlans has the statements of a database that is about to be opened
// explained when the test ends.
func watchPlans(tb testing.TB, cfg *sqldb.Config) (check func()) {
	if cfg.OnStatement != nil {
		return func() {}
	}
	r := &recorder{}
	cfg.OnStatement = r.sent
	engine := SQLite
	if cfg.URL != "" {
		engine = Postgres
	}
	return func() {
		var fresh []Statement
		for _, s := range r.all {
			if _, done := explained.LoadOrStore(string(engine)+s.Text, true); !done {
				fresh = append(fresh, s)
			}
		}
		if len(fresh) == 0 {
			return
		}
		refused, err := refusedPlans(tb, engine, fresh, nil)
		if err != nil {
			tb.Errorf("explain the statements of this test: %v", err)
		}
		for _, why := range refused {
			tb.Error(why)
		}
	}
}

// RefusedPlans explains statements on a large database of an engine, after
// change was made to its schema. It returns a text for each whose plan
//
//   - reads all of a table that grows;
//   - binds fewer columns of an index than another index of the table offers;
//   - reads many rows and compares them with a value that no index has;
//   - sorts many rows.
//
// PostgreSQL measures its tables and may prefer to read all of a small one, or to
// sort: there a plan is refused if it cannot do without. Statements that have to
// do one of these are among the exceptions of this package, with a reason.
func RefusedPlans(tb testing.TB, engine Engine, all []Statement, change ...string) []string {
	tb.Helper()
	refused, err := refusedPlans(tb, engine, all, change)
	if err != nil {
		tb.Fatal(err)
	}
	return refused
}

// Explain returns the plans of statements on a large database of an engine.
func Explain(tb testing.TB, engine Engine, all []Statement) ([]string, error) {
	tb.Helper()
	db, err := openLarge(tb.Context(), tb, engine, nil)
	if err != nil {
		return nil, err
	}
	defer db.close()
	texts := make([]string, len(all))
	for i, s := range all {
		p, err := db.explain(tb.Context(), s, false)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Text, err)
		}
		texts[i] = p.text
	}
	return texts, nil
}

func refusedPlans(tb testing.TB, engine Engine, all []Statement, change []string) (refused []string, err error) {
	ctx := context.Background() // the test's own has ended when it is cleaned up
	db, err := openLarge(ctx, tb, engine, change)
	if err != nil {
		return nil, err
	}
	defer db.close()
	for _, s := range all {
		if excepted(s.Text) || !db.knows(s.Text) {
			continue
		}
		p, err := db.explain(ctx, s, false)
		if err != nil {
			return refused, fmt.Errorf("%s: %w", s.Text, err)
		}
		why := db.refuse(s.Text, p)
		if why != "" && db.Postgres() {
			if p, err = db.explain(ctx, s, true); err != nil {
				return refused, fmt.Errorf("%s: %w", s.Text, err)
			}
			why = db.refuse(s.Text, p)
		}
		if why != "" {
			refused = append(refused, fmt.Sprintf("%s: %s\n%s\n%s", engine, why, s.Text, p.text))
		}
	}
	return refused, nil
}

// plan is what a database does for a statement.
type plan struct {
	text  string
	reads []read
	sorts bool
}

// read is one step of a plan that reads a table.
type read struct {
	name  string   // the table, or its alias in the statement
	scans bool     // all of it, or all of an index
	index string   // "" where the engine does not say
	bound []string // columns that are compared for equality
}

// refuse returns what is wrong with a plan, or "".
func (db *large) refuse(text string, p plan) string {
	names, best := db.aliases(text), map[string]read{}
	for _, r := range p.reads {
		if other, ok := best[r.name]; !ok || len(r.bound) > len(other.bound) {
			best[r.name] = r
		}
	}
	many := ""
	for name, r := range best {
		table, ok := names[name]
		if !ok || bounded[table] != "" || r.scans && db.partial(table, r.index) {
			continue
		}
		if r.scans {
			return "it reads all of " + table
		}
		if db.findsOne(table, r) {
			continue
		}
		if offered, index := db.offered(table, name, text); offered > len(r.bound) {
			return fmt.Sprintf("it binds %d columns (%s) of %s, and %s offers %d", len(r.bound), strings.Join(r.bound, ", "), table, index, offered)
		}
		if finds(table, r.bound) {
			continue
		}
		many = table
		for _, column := range db.columns[table] {
			if !slices.Contains(r.bound, column) && !db.implied(table, r.index, column) && compares(text, table, name, column) {
				return fmt.Sprintf("it reads many rows of %s to compare %s", table, column)
			}
		}
	}
	if p.sorts && many != "" {
		return "it sorts many rows of " + many
	}
	return ""
}

// finds reports whether few rows of a table have the same values in columns:
// one of them is an id, or the like. A company, an agent or a state may have any
// number of rows.
func finds(table string, columns []string) bool {
	return few[table] != "" && slices.Contains(columns, "tenant_id") ||
		slices.ContainsFunc(columns, func(c string) bool { return sqldb.DistinctValues(c) >= 10_000 })
}

// partial reports whether an index has some rows of its table only.
func (db *large) partial(table, name string) bool {
	return slices.ContainsFunc(db.indexes[table], func(i index) bool { return i.name == name && i.where != "" })
}

// implied reports whether the condition of a partial index is about a column.
func (db *large) implied(table, name, column string) bool {
	return slices.ContainsFunc(db.indexes[table], func(i index) bool {
		return i.name == name && regexp.MustCompile(`\b`+column+`\b`).MatchString(i.where)
	})
}

// offered returns the most columns that an index of the table could bind for
// equality, by the conditions of the statement.
func (db *large) offered(table, name, text string) (most int, index string) {
	for _, i := range db.indexes[table] {
		n := 0
		for n < len(i.columns) && compares(text, table, name, i.columns[n]) {
			n++
		}
		if n > most && (i.where == "" || strings.Contains(text, i.where)) {
			most, index = n, i.name
		}
	}
	return most, index
}

// findsOne reports whether a plan binds all columns of a unique index.
func (db *large) findsOne(table string, r read) bool {
	for _, i := range db.indexes[table] {
		if i.unique && !slices.ContainsFunc(i.columns, func(c string) bool { return !slices.Contains(r.bound, c) }) {
			return true
		}
	}
	return slices.Contains(r.bound, "rowid")
}

// compares reports whether a statement compares a column of a table for equality. Where
// the table has no other name there, the column may stand alone.
func compares(text, table, name, column string) bool {
	at := strings.Index(text, "WHERE")
	if at < 0 {
		return false
	}
	alias := `(?:\b` + regexp.QuoteMeta(name) + `\.)`
	if name == table || !strings.Contains(text, name+".") {
		alias = `(?:^|[^.\w]|\b` + regexp.QuoteMeta(name) + `\.)`
	}
	return regexp.MustCompile(alias + column + `\s*(?:=|IN \([?'])`).MatchString(text[at:])
}

var fromTable = regexp.MustCompile(`(?i)\b(?:FROM|JOIN|UPDATE|INTO)\s+(\w+)(?:\s+AS)?(?:\s+(\w+))?`)

// aliases returns the tables of a statement by the names that it has for them.
func (db *large) aliases(text string) map[string]string {
	names := map[string]string{}
	for _, m := range fromTable.FindAllStringSubmatch(text, -1) {
		if _, ok := db.indexes[m[1]]; ok {
			names[m[1]] = m[1]
			if m[2] != "" {
				names[m[2]] = m[1]
			}
		}
	}
	return names
}

// knows reports whether a statement reads tables of the schema. Tests have
// tables of their own, too.
func (db *large) knows(text string) bool { return len(db.aliases(text)) > 0 }
