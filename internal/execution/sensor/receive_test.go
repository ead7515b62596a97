package sensor_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/execution/sensor"
)

func TestACallStartsARun(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		agentID := r.agent()
		v := r.sensor(agentID, `,"instructions":"Look at it."`)
		r.advance(time.Minute)
		id, err := r.post(v, `{"n": 1}`, "Content-Type", "application/json", "Authorization", "Bearer x", "X-Event", "push")
		r.fatal(err)
		all := r.started(agentID)
		if len(all) != 1 || all[0].RunID != id || string(all[0].Metadata) != `{"source":"sensor","webhook_id":"`+v.WebhookID+`"}` {
			t.Fatalf("runs: %+v", all)
		}
		var in object
		r.fatal(json.Unmarshal(all[0].Input, &in))
		message, _ := in["message"].(string)
		delete(in, "message")
		want := object{
			"type": "webhook_received", "webhook_id": v.WebhookID, "payload": object{"n": 1.0}, "instructions": "Look at it.",
			"headers": object{"content-type": "application/json", "x-event": "push"},
		}
		if diff := cmp.Diff(want, in); diff != "" || !strings.Contains(message, `{"n": 1}`) || strings.Contains(message, "Bearer") {
			t.Errorf("input (-want +got):\n%s\nmessage: %s", diff, message)
		}
		now := r.read(v.WebhookID)
		if now.Triggers != 1 || now.LastTriggeredAt == nil || !now.LastTriggeredAt.Equal(r.clock.Now()) || now.Status != sensor.Active {
			t.Errorf("afterwards: %+v", now)
		}
		unsigned := r.sensor(agentID, `,"unsigned":true,"max_triggers":2`)
		for _, text := range []string{"no \x00 JSON \xff", `{"a\u0000":"\u0000"}`} { // the databases cannot store all of this as it is
			_, err = r.send(unsigned.WebhookID, "whatever", text)
			r.fatal(err)
		}
		_, err = r.send(unsigned.WebhookID, "", "no JSON")
		if f := is(t, err, fault.Gone, "GONE"); !strings.Contains(f.Detail, "maximum number of calls") || r.read(unsigned.WebhookID).Status != sensor.Spent {
			t.Errorf("%s, %v", f.Detail, r.read(unsigned.WebhookID).Status)
		}
	})
}

func TestRefusedCalls(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		agentID := r.agent()
		v := r.sensor(agentID, `,"max_triggers":3,"expires_at":"2026-09-11T00:00:00Z"`)
		const body = `{"a":1}`
		right := sensor.Sign(v.Secret, []byte(body))
		for _, wrong := range []string{
			"", "sha256=", strings.TrimPrefix(right, "sha256="), "sha1=" + right[7:], right[:len(right)-1], right + "0", right + ", " + right,
			sensor.Sign(v.Secret, []byte(body+" ")), sensor.Sign(strings.TrimPrefix(v.Secret, "whsec_"), []byte(body)), sensor.Sign("", []byte(body)),
		} {
			_, err := r.send(v.WebhookID, wrong, body)
			is(t, err, fault.Unauthenticated, "AUTH_ERROR")
		}
		_, err := r.send(ident.New(), right, body)
		is(t, err, fault.NotFound, "NOT_FOUND")

		r.suspend = true
		_, err = r.send(v.WebhookID, right, body)
		is(t, err, fault.Forbidden, "TENANT_SUSPENDED")
		_, err = r.send(v.WebhookID, "", body) // a stranger does not learn that
		is(t, err, fault.Unauthenticated, "AUTH_ERROR")
		r.suspend = false

		agents := r.agents.Store()
		_, err = agents.Move(t.Context(), r.who, agentID, "suspend", nil)
		r.fatal(err)
		_, err = r.send(v.WebhookID, right, body)
		is(t, err, fault.Conflict, "INVALID_STATE_TRANSITION")
		_, err = agents.Move(t.Context(), r.who, agentID, "activate", nil)
		r.fatal(err)

		r.refuse = &fault.Error{Kind: fault.Limited, Code: "quota_exceeded", Detail: "You used 7 of 7.", RetryAfter: time.Hour, Extra: object{"quota": 7}}
		_, err = r.send(v.WebhookID, right, body)
		if f := is(t, err, fault.Limited, "quota_exceeded"); f.Extra != nil || strings.Contains(f.Detail, "7") || f.RetryAfter != time.Hour {
			t.Errorf("an outside caller receives %+v", f)
		}
		r.refuse = errors.New("disk on fire")
		_, err = r.send(v.WebhookID, right, body)
		is(t, err, fault.Internal, "INTERNAL_ERROR")
		r.refuse = nil
		if got := r.read(v.WebhookID); got.Triggers != 0 || len(r.started(agentID)) != 0 {
			t.Errorf("refused calls used triggers: %+v", got)
		}

		r.advance(11*time.Hour + 59*time.Minute)
		_, err = r.send(v.WebhookID, strings.ToUpper(right), body)
		r.fatal(err)
		r.advance(time.Minute)
		_, err = r.send(v.WebhookID, right, body)
		if f := is(t, err, fault.Gone, "GONE"); !strings.Contains(f.Detail, "it has expired") || r.read(v.WebhookID).Status != sensor.Expired {
			t.Error(f.Detail)
		}
		_, err = r.send(v.WebhookID, "", body)
		is(t, err, fault.Unauthenticated, "AUTH_ERROR")
		testGone(t, r)
	})
}

// testGone calls a sensor whose agent was deleted, and one that the operations
// cannot create.
func testGone(t *testing.T, r *harness) {
	t.Helper()
	agentID := r.agent()
	v := r.sensor(agentID, "")
	r.fatal(r.agents.Store().Delete(t.Context(), r.who, agentID))
	for range 2 { // before the news of it came, and after
		_, err := r.post(v, "{}")
		if f := is(t, err, fault.Gone, "GONE"); !strings.Contains(f.Detail, "agent was deleted") {
			t.Error(f.Detail)
		}
		r.fatal(r.AgentDeleted(t.Context(), r.who.TenantID, agentID))
	}
	if got := r.read(v.WebhookID); got.Status != sensor.Ended || got.Triggers != 0 {
		t.Errorf("%+v", got)
	}

	open := &sensor.Sensor{TenantID: r.who.TenantID, ID: ident.New(), AgentID: r.agent(), CreatedAt: r.clock.Now()}
	r.fatal(r.db.Write(t.Context(), func(tx txn.Tx) error {
		_, err := r.store.CreateTx(tx, open)
		return err
	}))
	_, err := r.send(open.ID, "", "{}")
	is(t, err, fault.Forbidden, "FORBIDDEN")
}

// concurrently makes calls at the same time and returns the runs and the errors.
func concurrently(calls int, call func(i int) (string, error)) (runs []string, refused []error) {
	var wait sync.WaitGroup
	var mu sync.Mutex
	begin := make(chan struct{})
	for i := range calls {
		wait.Go(func() {
			<-begin
			id, err := call(i)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				refused = append(refused, err)
				return
			}
			runs = append(runs, id)
		})
	}
	close(begin)
	wait.Wait()
	return runs, refused
}

// If more calls than triggers are left race, each trigger starts one run.
func TestLastTriggerIsUsedOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		agentID := r.agent()
		for range 5 {
			v := r.sensor(agentID, `,"max_triggers":3`)
			before := len(r.started(agentID))
			runs, refused := concurrently(8, func(int) (string, error) { return r.post(v, "{}") })
			for _, err := range refused {
				is(t, err, fault.Gone, "GONE")
			}
			if made := len(r.started(agentID)) - before; len(runs) != 3 || made != 3 {
				t.Fatalf("%d calls succeeded and %d runs were started for 3 triggers", len(runs), made)
			}
			if got := r.read(v.WebhookID); got.Triggers != 3 || got.Status != sensor.Spent {
				t.Errorf("%+v", got)
			}
		}
	})
}

// A repeated call returns the same run, also if the sensor takes no more calls.
func TestRepeatedCalls(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		agentID := r.agent()
		v := r.sensor(agentID, `,"max_triggers":4`)
		post := func(body, header, id string) string {
			t.Helper()
			run, err := r.post(v, body, header, id)
			r.fatal(err)
			return run
		}
		runs, refused := concurrently(5, func(int) (string, error) { return r.post(v, "{}", "Webhook-Id", "one") })
		if len(refused) > 0 {
			t.Fatal(refused[0])
		}
		for _, id := range runs {
			if id != runs[0] {
				t.Fatalf("one call started %v", runs)
			}
		}
		seen := map[string]bool{runs[0]: true}
		for _, other := range [][3]string{{"{}", "Webhook-Id", "two"}, {"{ }", "Webhook-Id", "one"}, {"{}", "X-Github-Delivery", "one"}} {
			id := post(other[0], other[1], other[2])
			if seen[id] {
				t.Errorf("%v is another call, but returned the same run", other)
			}
			seen[id] = true
		}
		if again := post("{}", "Webhook-Id", "one"); again != runs[0] { // there is no trigger left
			t.Errorf("again: %s, not %s", again, runs[0])
		}
		_, err := r.post(v, "{}", "Webhook-Id", "three")
		is(t, err, fault.Gone, "GONE")
		if got := r.read(v.WebhookID).Triggers; got != 4 || len(r.started(agentID)) != 4 {
			t.Errorf("%d triggers, %d runs", got, len(r.started(agentID)))
		}

		v = r.sensor(agentID, "")
		first := post("{}", "X-Svc-Event-Id", "one")
		r.advance(24*time.Hour + time.Minute)
		if post("{}", "X-Svc-Event-Id", "one") == first {
			t.Error("a call is recognized after the window")
		}
		for _, header := range []string{"X-Other", "Idempotency-Key"} {
			if a, b := post("{}", header, "one"), post("{}", header, "one"); a == b {
				t.Errorf("calls with the same %s were taken for the same", header)
			}
		}
	})
}

// A sensor that is deleted during a call starts no run.
func TestSensorDeletedDuringCall(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		agentID := r.agent()
		v := r.sensor(agentID, "")
		r.Suspended = func(ctx context.Context, _ string) (bool, error) { // asked after the sensor was read
			return false, r.db.Write(ctx, func(tx txn.Tx) error {
				_, err := r.store.DeleteTx(tx, r.who.TenantID, v.WebhookID)
				return err
			})
		}
		_, err := r.post(v, "{}")
		is(t, err, fault.NotFound, "NOT_FOUND")
		if len(r.started(agentID)) != 0 {
			t.Error("a run was started")
		}
		r.Suspended = func(context.Context, string) (bool, error) { return false, errors.New("disk on fire") }
		v = r.sensor(agentID, "")
		_, err = r.post(v, "{}")
		is(t, err, fault.Internal, "INTERNAL_ERROR")
	})
}
