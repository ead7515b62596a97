package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/route"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/idempotency"
	"agentd/internal/store/idempotencysql"
	"agentd/internal/store/sqldb/sqldbtest"
)

// A repetition waits for the answer of the first request; 202 comes only after that
// wait.
func TestRepetitionsWait(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.Engines[0])
	box, err := secret.NewBox(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	keeper := idempotency.NewManager(idempotency.Config{
		Store: idempotencysql.New(db), Writer: db, Box: box, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler),
	})
	started, proceed := make(chan struct{}, 1), make(chan struct{})
	slow := route.Action(route.Row{Method: "POST", Path: "/api/v1/slow", ID: "slow", Outside: true, Status: 201},
		func(context.Context, authz.Caller, *struct{}) (string, error) {
			started <- struct{}{}
			<-proceed
			return "done", nil
		})
	w := start(t, func(c *Config) {
		c.Routes, c.Idempotency, c.RepeatWait = append(c.Routes, slow), keeper, 300*time.Millisecond
	})
	type answer struct {
		*http.Response
		body string
	}
	post := func() answer {
		res, body := w.call(t, "POST", "/api/v1/slow", "", header(keyHeader, "one"))
		return answer{res, body}
	}
	first, second := make(chan answer, 1), make(chan answer, 1)
	go func() { first <- post() }()
	<-started
	if late := post(); late.StatusCode != 202 || late.Header.Get("Retry-After") != "1" {
		t.Errorf("a repetition that waited long enough: %d %s", late.StatusCode, late.body)
	}
	go func() { second <- post() }()
	close(proceed)
	if got := <-first; got.StatusCode != 201 {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	if got := <-second; got.StatusCode != 201 || got.body != `"done"` || got.Header.Get(replayedHeader) != "true" {
		t.Errorf("a repetition that waited: %d %s", got.StatusCode, got.body)
	}
}
