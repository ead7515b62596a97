package main

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
)

// What the first run is asked, and values of its metadata; its copies have others.
const (
	firstInput   = "the message of the first run"
	firstOrder   = "order-of-the-first-run"
	firstChannel = "channel-of-the-first-run"
)

// pattern is the run whose rows are copied.
type pattern struct{ agent, session, run, answer string }

// things are what lists are asked for.
type things struct {
	busyAgent, rareAgent   string
	longSession, ofSession string
	fiftyTurns             string // a session
	order                  string // of one run's metadata
	begin                  time.Time
}

// old returns times between which a thousandth of the runs were made, long ago.
func (t things) old() (from, to string) {
	from = t.begin.Add(year / 2).Format(time.RFC3339)
	return from, t.begin.Add(year/2 + year/1000).Format(time.RFC3339)
}

const (
	agents     = 1000
	longTurns  = 5000
	fewTurns   = 50
	batch      = 2000
	perSession = 10
	year       = 365 * 24 * time.Hour
)

// copied are the tables whose rows are copied, and the condition of the pattern's.
var copied = []struct{ table, where string }{
	{"runs", "run_id = '%[1]s'"},
	{"run_steps", "run_id = '%[1]s'"},
	{"run_events", "run_id = '%[1]s'"},
	{"session_runs", "run_id = '%[1]s'"},
	{"run_labels", "run_id = '%[1]s'"},
}

// perNewSession are those of which each session has a row.
var perNewSession = []struct{ table, where string }{
	{"sessions", "session_id = '%[2]s'"},
}

// template is a row of the pattern: the text of the INSERT of a copy, and its values.
type template struct {
	table   string
	columns []string
	insert  string
	values  []any
}

func fill(s settings, p pattern) (things, error) {
	db, err := open(s)
	if err != nil {
		return things{}, err
	}
	defer db.Close()
	f := filler{db: db, p: p, rng: rand.New(rand.NewPCG(1, 2)), postgres: s.postgres != ""}
	for range agents {
		f.agents = append(f.agents, f.id(time.Now()))
	}
	f.agents[0] = p.agent
	for _, c := range copied {
		rows, err := f.read(c.table, fmt.Sprintf(c.where, p.run, p.session))
		if err != nil {
			return things{}, err
		}
		f.run = append(f.run, rows...)
	}
	for _, c := range perNewSession {
		rows, err := f.read(c.table, fmt.Sprintf(c.where, p.run, p.session))
		if err != nil {
			return things{}, err
		}
		f.session = append(f.session, rows...)
	}
	audit, err := f.read("audit_log", "TRUE ORDER BY at DESC LIMIT 1")
	if err != nil {
		return things{}, err
	}
	f.audit = audit
	if err := f.all(s.runs); err != nil {
		return things{}, err
	}
	if f.postgres {
		_, err = db.Exec("VACUUM ANALYZE")
	}
	return things{
		busyAgent: f.agents[0], rareAgent: f.agents[agents-1], longSession: f.long, ofSession: f.current, fiftyTurns: f.fifty,
		order: orderOf(s.runs / 2), begin: f.begin,
	}, err
}

func open(s settings) (*sql.DB, error) {
	if s.postgres != "" {
		return sql.Open("pgx", s.postgres)
	}
	db, err := sql.Open("sqlite", "file:"+s.database()+"?_pragma=synchronous(0)&_pragma=cache_size(-65536)&_pragma=wal_autocheckpoint(4000)")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// filler writes the copies.
type filler struct {
	db                   *sql.DB
	p                    pattern
	rng                  *rand.Rand
	postgres             bool
	agents               []string
	run, session, audit  []template
	current, long, fifty string // sessions
	turns                int    // of the current one
	made                 int    // runs
	begin                time.Time
}

// read returns the rows of a table that fulfil a condition.
func (f *filler) read(table, where string) ([]template, error) {
	rows, err := f.db.Query("SELECT * FROM " + table + " WHERE " + where) //nolint:unqueryvet // rows are copied whole
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	marks := make([]string, len(columns))
	for i := range marks {
		marks[i] = "?"
		if f.postgres {
			marks[i] = fmt.Sprintf("$%d", i+1)
		}
	}
	var all []template
	for rows.Next() {
		t := template{table: table, columns: columns, values: make([]any, len(columns)),
			insert: "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(marks, ", ") + ")"}
		into := make([]any, len(columns))
		for i := range into {
			into[i] = &t.values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the first run has no row in %s", table)
	}
	return all, rows.Err()
}

// all makes n runs, a session for each ten, and an audit entry for each; the
// oldest first, as they would have come.
func (f *filler) all(n int) error {
	f.begin = time.Now().Add(-year)
	for done := 0; done < n; {
		tx, err := f.db.Begin()
		if err != nil {
			return err
		}
		w := writer{tx: tx, prepared: map[string]*sql.Stmt{}}
		for range min(batch, n-done) {
			f.one(&w, f.begin.Add(year/time.Duration(n)*time.Duration(done)))
			done++
		}
		if w.err != nil {
			tx.Rollback()
			return w.err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// one makes a run.
func (f *filler) one(w *writer, at time.Time) {
	agent := f.agents[0]
	if f.made >= longTurns+fewTurns && f.rng.IntN(2) == 0 { // the two sessions that are measured have an agent that exists
		agent = f.agents[int(float64(agents-1)*f.rng.Float64()*f.rng.Float64())]
	}
	if f.turns%f.length() == 0 {
		f.turns, f.current = 0, f.id(at)
		switch {
		case f.long == "":
			f.long = f.current
		case f.fifty == "":
			f.fifty = f.current
		}
		c := f.replacer(at, agent, "", "completed", "", "")
		c.turns = int64(f.length())
		for _, t := range f.session {
			w.insert(t, c)
		}
	}
	f.turns++
	f.made++
	status := "completed"
	switch n := f.rng.IntN(1000); {
	case n < 20:
		status = "failed"
	case n < 25:
		status = "timeout"
	case n < 35:
		status = "cancelled"
	}
	c := f.replacer(at, agent, f.id(at), status, text(f.rng, 40, 400), text(f.rng, 600, 4000))
	for _, t := range f.run {
		w.insert(t, c)
	}
	c.action = actions[f.rng.IntN(len(actions))]
	for _, t := range f.audit {
		w.insert(t, c)
	}
}

var actions = strings.Fields(`agent.created agent.updated agent.deleted run.cancelled session.deleted key.created key.revoked member.invited
	member.removed webhook.created webhook.deleted file.deleted`)

// length returns how many turns the current session has.
func (f *filler) length() int {
	switch f.current {
	case f.long:
		return longTurns
	case f.fifty:
		return fewTurns
	}
	return perSession
}

// orderOf returns the order of the nth run.
func orderOf(n int) string { return fmt.Sprintf("order-%d", n) }

// id returns a UUID of version 7.
func (f *filler) id(at time.Time) string {
	ms := at.UnixMilli()
	return fmt.Sprintf("%08x-%04x-7%03x-%04x-%012x", ms>>16, ms&0xffff, f.rng.IntN(1<<12), 0x8000|f.rng.IntN(1<<14), f.rng.Int64N(1<<48))
}
