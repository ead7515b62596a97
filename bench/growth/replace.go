package main

import (
	"database/sql"
	"math/rand/v2"
	"strings"
	"time"
)

// change is what distinguishes a copy from the pattern.
type change struct {
	f       *filler
	at      time.Time
	agent   string
	status  string
	action  string
	turn    int64
	turns   int64 // of the session
	id      func() string
	replace *strings.Replacer
}

var channels = []string{"web", "mail", "phone", "shop", "chat"}

// errorCodes are those of runs that did not complete.
var errorCodes = map[string]string{"failed": "model_error", "timeout": "max_duration_exceeded", "cancelled": "cancelled"}

func (f *filler) replacer(at time.Time, agent, run, status, input, answer string) change {
	pairs := []string{f.p.session, f.current, f.p.agent, agent}
	if run != "" {
		pairs = append(pairs, f.p.run, run, f.p.answer, answer, firstInput, input,
			firstOrder, orderOf(f.made), firstChannel, channels[f.made%len(channels)])
	}
	return change{f: f, at: at, agent: agent, status: status, turn: int64(f.turns), id: func() string { return f.id(at) },
		replace: strings.NewReplacer(pairs...)}
}

// value returns the value of a column of a copy.
func (c *change) value(table, column string, v any) any {
	switch column {
	case "step_id", "entry_id":
		return c.id()
	case "turns":
		return c.turns
	case "turn":
		return c.turn
	case "error_code":
		return errorCodes[c.status]
	case "action":
		return c.action
	case "status":
		if table == "runs" {
			return c.status
		}
		return v
	case "at", "created_at", "started_at", "completed_at", "updated_at":
		if n, ok := v.(int64); ok && n != 0 {
			return c.at.UnixMicro()
		}
		return v
	}
	switch v := v.(type) {
	case string:
		return c.replace.Replace(v)
	case []byte:
		return v
	}
	return v
}

// writer inserts copies in a transaction and keeps the first error.
type writer struct {
	tx       *sql.Tx
	prepared map[string]*sql.Stmt
	err      error
}

func (w *writer) insert(t template, c change) {
	if w.err != nil {
		return
	}
	stmt, ok := w.prepared[t.insert]
	if !ok {
		if stmt, w.err = w.tx.Prepare(t.insert); w.err != nil {
			return
		}
		w.prepared[t.insert] = stmt
	}
	values := make([]any, len(t.values))
	for i, v := range t.values {
		values[i] = c.value(t.table, t.columns[i], v)
	}
	_, w.err = stmt.Exec(values...)
}

var words = strings.Fields(`the refund of your order was sent on Monday and arrives within five working days unless a bank
	holiday delays it please keep the number that stands at the top of this message since our colleagues
	ask for it when you call them you can also answer here then we see all that was said before delivery
	address invoice customer product warranty return replacement support account password question`)

// text returns words of between low and high bytes.
func text(rng *rand.Rand, low, high int) string {
	n := low + rng.IntN(high-low)
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(words[rng.IntN(len(words))])
		b.WriteByte(' ')
	}
	return strings.TrimSpace(b.String()[:n])
}
