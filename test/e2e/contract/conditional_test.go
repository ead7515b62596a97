package contract

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/kernel/model/modeltest"
)

// Every resource whose row is Conditional, or that the kernel serves, has an ETag: a
// read that names it is 304, and a write that names another one is refused and
// changes nothing, so that nobody overwrites what they have not seen.
func TestConditionalRequests(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	c := contracttest.NewOwnCompany(t, apptest.Start(t, modeltest.New(t, apptest.HangingModel), apptest.WebSearch(t), apptest.Embedding, apptest.CorpProvider(t)))
	operations := contracttest.Operations(c.Server)
	slices.SortStableFunc(operations, contracttest.DeletionsLast)
	reads := map[string]*contracttest.Operation{}
	for _, op := range operations {
		if op.Method == http.MethodGet && (op.Conditional || slices.Contains(op.HeaderParams, "If-None-Match")) {
			reads[op.Path] = op
		}
	}
	walked := 0
	for _, op := range operations {
		read := reads[op.Path]
		switch {
		case op.Method == http.MethodGet || op.Method == http.MethodPost:
			continue
		case !op.Conditional && !slices.Contains(op.HeaderParams, "If-Match"):
			continue
		case read == nil && op.Conditional:
			t.Errorf("%s takes an If-Match, and no read on its path has an ETag: make its row Conditional", op)
			continue
		case read == nil: // a file of a workspace
			continue
		}
		walked++
		t.Run(op.TestName(), func(t *testing.T) { checkConditions(t, c.WithT(t), read, op) })
	}
	if walked < 20 {
		t.Errorf("%d operations take an If-Match", walked)
	}
}

func checkConditions(t *testing.T, c *contracttest.Company, read, write *contracttest.Operation) {
	change := c.OwnCall(write)
	get := *change
	get.Operation, get.Body, get.Headers = read, nil, nil
	seen := get.Send(c.Server)
	tag := seen.Header.Get("ETag")
	if seen.StatusCode != http.StatusOK || len(tag) < 3 || !strings.HasPrefix(tag, `"`) {
		t.Fatalf("%s: %d %s, ETag %q", read, seen.StatusCode, seen.Body, tag)
	}
	if r := get.Send(c.Server, "If-None-Match", `"other", W/`+tag); r.StatusCode != http.StatusNotModified || len(r.Body) > 0 || r.Header.Get("ETag") != tag {
		t.Errorf("%s with its own ETag: %d %s, ETag %q, want 304 and %q", read, r.StatusCode, r.Body, r.Header.Get("ETag"), tag)
	}
	if r := get.Send(c.Server, "If-None-Match", `"other"`); r.StatusCode != http.StatusOK || string(r.Body) != string(seen.Body) {
		t.Errorf("%s with another ETag: %d %s", read, r.StatusCode, r.Body)
	}

	refused := change.Send(c.Server, "If-Match", `"0", "other"`)
	write.CheckRefusal(t, refused, http.StatusPreconditionFailed, "PRECONDITION_FAILED")
	if r := get.Send(c.Server, "If-None-Match", tag); r.StatusCode != http.StatusNotModified {
		t.Errorf("%s was refused, and changed something: %s\n%s", write, seen.Body, r.Body)
	}
	current, _ := refused.JSON["current_etag"].(string)
	if len(current) < 3 || !strings.HasPrefix(tag, strings.TrimSuffix(current, `"`)) {
		t.Errorf("current_etag is %q, and the ETag %q", current, tag)
	}

	done := change.Send(c.Server, "If-Match", `"other", `+tag)
	if !write.Succeeds(done.StatusCode) {
		t.Fatalf("%s with the current ETag: %d %s", write, done.StatusCode, done.Body)
	}
	if write.Method == http.MethodDelete {
		return
	}
	// What a change answers can be changed again at once.
	if again := change.Send(c.Server, "If-Match", done.Header.Get("ETag")); !write.Succeeds(again.StatusCode) {
		t.Errorf("%s with the ETag %q of its answer: %d %s", write, done.Header.Get("ETag"), again.StatusCode, again.Body)
	}
	if r := change.Send(c.Server, "If-Match", "*"); !write.Succeeds(r.StatusCode) {
		t.Errorf("%s of any state: %d %s", write, r.StatusCode, r.Body)
	}
}

// Of changes that were made from the same state, one is made.
func TestConditionalChangesAtOnce(t *testing.T) {
	t.Parallel()
	c := contracttest.NewOwnCompany(t, apptest.Start(t, modeltest.New(t, apptest.HangingModel)))
	agent := "/api/v1/agents/" + c.IDs["agentId"][0]
	for path, body := range map[string]func(i int) apptest.Object{
		"/api/v1/billing/budget": func(i int) apptest.Object { return apptest.Object{"limit_usd": i + 1} },
		"/api/v1/notifications/prefs": func(i int) apptest.Object {
			return apptest.Object{"quiet_hours": apptest.Object{"start_local": fmt.Sprint("22:0", i), "end_local": "06:00", "timezone": "UTC"}}
		},
		"/api/v1/tenants/me": func(i int) apptest.Object { return apptest.Object{"description": fmt.Sprint("change ", i)} },
		"/api/v1/sessions/" + c.IDs["sessionId"][0]: func(i int) apptest.Object {
			return apptest.Object{"metadata": apptest.Object{"change": i}}
		},
		agent + "/schedule":         func(i int) apptest.Object { return apptest.Object{"cron": fmt.Sprintf("%d 0 1 1 *", i)} },
		agent + "/memory/core/race": func(i int) apptest.Object { return apptest.Object{"content": fmt.Sprint("change ", i)} },
	} {
		t.Run(strings.Trim(contracttest.NotWord.ReplaceAllString(path, "_"), "_"), func(t *testing.T) {
			c := c.WithT(t)
			if strings.HasSuffix(path, "/race") {
				c.Expect(http.StatusOK, "PUT", path, body(8))
			}
			tag := c.Do("GET", path, nil).Header.Get("ETag")
			var done atomic.Int64
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					switch r := c.Do("PUT", path, body(i), "If-Match", tag); r.StatusCode {
					case http.StatusOK:
						done.Add(1)
					case http.StatusPreconditionFailed:
					default:
						t.Errorf("%d %s", r.StatusCode, r.Body)
					}
				})
			}
			all.Wait()
			if done.Load() != 1 {
				t.Errorf("%d changes were made, want 1", done.Load())
			}
		})
	}
}
