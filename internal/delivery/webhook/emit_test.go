package webhook_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/webhook"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/policy"
)

func sameJSON(a, b jsontext.Value) bool {
	a, b = a.Clone(), b.Clone()
	return a.Canonicalize() == nil && b.Canonicalize() == nil && string(a) == string(b)
}

// An event is delivered to the subscriptions that want it, if and only if its
// transaction commits.
func TestOutbox(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		one, two, other := h.subscribe("run.completed", "run.failed"), h.subscribe("run.completed"), h.subscribe("agent.created")
		undone := errors.New("undone")
		err := h.db.Write(t.Context(), func(tx txn.Tx) error {
			return errors.Join(h.Emit(tx, h.event("run.completed")), undone)
		})
		if !errors.Is(err, undone) || !h.due().IsZero() {
			t.Errorf("a rolled-back event left work: %v", err)
		}
		e := h.event("run.completed")
		e.ID = ident.New()
		for range 2 { // emitted twice, sent once
			h.write(func(tx txn.Tx) error { return h.Emit(tx, e) })
		}
		foreign := h.event("run.completed")
		foreign.TenantID = ident.New()
		unwanted := h.event("quota.exceeded")
		unwanted.Data = func() (jsontext.Value, error) {
			t.Error("Data was called for an event that no subscription wants")
			return nil, nil
		}
		h.write(func(tx txn.Tx) error { return errors.Join(h.Emit(tx, foreign), h.Emit(tx, unwanted)) })
		h.work()
		if a, b, c := len(h.log(one)), len(h.log(two)), len(h.log(other)); a != 1 || b != 1 || c != 0 {
			t.Errorf("delivered %d, %d and %d times", a, b, c)
		}
		failed := h.event("run.failed")
		failed.Data = func() (jsontext.Value, error) { return nil, undone }
		if err := h.db.Write(t.Context(), func(tx txn.Tx) error { return h.Emit(tx, failed) }); !errors.Is(err, undone) {
			t.Errorf("an error of Data: %v", err)
		}
	})
}

func TestRunEvents(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		h.subscribe(h.Events.Names()...)
		large := `"` + strings.Repeat("x", 65<<10) + `"`
		rec := run.Record{Run: run.Run{
			RunID: "run", TenantID: h.who.TenantID, AgentID: "agent",
			Input: []byte(`{"message":` + large + `}`), Output: []byte(`{"text":"fine"}`), Metadata: []byte(`{"a":"b"}`),
		}}
		type emitted struct{ Event, Status string }
		var got []emitted
		for _, status := range run.Statuses {
			rec.Status = status
			h.write(func(tx txn.Tx) error { return h.OnRunState(tx, &rec) })
		}
		asked := rec
		asked.Status, asked.PendingInput = run.Paused, &run.PendingInput{Question: "Which year?"}
		h.write(func(tx txn.Tx) error { return h.OnRunState(tx, &asked) })
		h.write(func(tx txn.Tx) error {
			return h.Violated(tx, &rec, policy.Violation{GuardrailID: "g", Name: "manners", Stage: policy.Input, Action: policy.Block})
		})
		rec.Options.Sandbox = &run.Sandbox{} // nothing outside follows a test of a changed agent
		rec.Status = run.Completed
		h.write(func(tx txn.Tx) error { return h.OnRunState(tx, &rec) })
		h.work()
		for _, a := range h.requests() {
			var body struct {
				Data map[string]any `json:"data"`
			}
			if err := json.Unmarshal(a.Body, &body); err != nil {
				t.Fatal(err)
			}
			d := body.Data
			if a.EventType == "guardrail.violated" {
				want := map[string]any{"run_id": "run", "guardrail_id": "g", "name": "manners", "stage": "input", "action": "block"}
				if diff := cmp.Diff(want, d); diff != "" {
					t.Error(diff)
				}
				continue
			}
			got = append(got, emitted{a.EventType, d["status"].(string)})
			if fmt.Sprint(d["omitted"]) != "[input]" || fmt.Sprint(d["output"]) != "map[text:fine]" || fmt.Sprint(d["metadata"]) != "map[a:b]" {
				t.Errorf("the data is %v", d)
			}
			if _, ok := d["artifacts"]; ok {
				t.Error("the data has artifacts")
			}
		}
		want := map[emitted]bool{
			{"run.completed", "completed"}: true, {"run.cancelled", "cancelled"}: true, {"run.failed", "failed"}: true,
			{"run.failed", "timeout"}: true, {"run.failed", "guardrail_blocked"}: true, {"run.failed", "rejected"}: true,
			{"run.awaiting_approval", "awaiting_approval"}: true, {"run.auth_required", "auth_required"}: true,
			{"run.awaiting_input", "paused"}: true, // once: who pauses a run by hand waits for nothing
		}
		found := map[emitted]bool{}
		for _, g := range got {
			found[g] = true
		}
		if diff := cmp.Diff(want, found); diff != "" || len(got) != len(want) {
			t.Error(diff, got)
		}
	})
}

// A body that is too large is cut to valid JSON that is marked as truncated.
func TestCutBodies(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		h.subscribe("run.failed")
		for name, data := range map[string]string{
			"a text":         `{"z":1,"text":"` + strings.Repeat(`\u0001é`, 400<<10) + `","a":{"b":2},"truncated":false}`,
			"an object":      `{"z":1,"list":["` + strings.Repeat("x", 2<<20) + `"],"a":{"b":2}}`,
			"many members":   `{"z":1,"a":{"b":2}` + strings.Repeat(`,"`+strings.Repeat("k", 30<<10)+`%d":"v"`, 50) + `}`,
			"two long texts": `{"one":"` + strings.Repeat("1", 700<<10) + `","z":1,"a":{"b":2},"two":"` + strings.Repeat("2", 800<<10) + `"}`,
		} {
			if strings.Contains(data, "%d") {
				for i := range 50 {
					data = strings.Replace(data, "%d", fmt.Sprint(i), 1)
				}
			}
			e := h.event("run.failed")
			e.Data = func() (jsontext.Value, error) { return jsontext.Value(data), nil }
			h.write(func(tx txn.Tx) error { return h.Emit(tx, e) })
			h.work()
			all := h.requests()
			body := all[len(all)-1].Body
			var got struct {
				Data struct {
					Z         int            `json:"z"`
					A         map[string]int `json:"a"`
					Truncated bool           `json:"truncated"`
				} `json:"data"`
			}
			if err := json.Unmarshal(body, &got); err != nil || len(body) > 1<<20 || len(body) < 200 {
				t.Fatalf("%s: %d bytes, %v", name, len(body), err)
			}
			if d := got.Data; d.Z != 1 || d.A["b"] != 2 || !d.Truncated {
				t.Errorf("%s: the small members are %+v", name, d)
			}
			if name == "a text" && len(body) < 900<<10 {
				t.Errorf("only %d bytes of a text are left", len(body))
			}
		}
	})
}

func FuzzCut(f *testing.F) {
	f.Add(`{"a":"b","c":[1,2,{"d":"\ud83d\ude00"}],"truncated":1}`, 40)
	f.Add(`{"":"x","\n":"`+strings.Repeat("y", 300)+`"}`, 100)
	f.Fuzz(func(t *testing.T, object string, limit int) {
		v := jsontext.Value(object)
		if !v.IsValid() || v.Kind() != '{' || limit < 64 || limit > 1<<20 {
			return
		}
		cut, err := webhook.Cut(v, limit)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Truncated bool `json:"truncated"`
		}
		if err := json.Unmarshal(cut, &got); err != nil || !got.Truncated || len(cut) > limit {
			t.Errorf("%d bytes of %d: %s, %v", len(cut), limit, cut, err)
		}
	})
}

func TestCreation(t *testing.T) {
	each(t, func(t *testing.T, h *harness) {
		create := func(url string, events ...string) (webhook.View, error) {
			return call[webhook.View](h, "createWebhook", func(in any) { setBody(in, url, events) })
		}
		v, err := create("https://receiver.example/", "company.paused", "run.failed", "initiative.paused")
		if err != nil || v.Status != webhook.Active || cmp.Diff([]string{"initiative.paused", "run.failed"}, v.Events) != "" {
			t.Errorf("created %+v, %v", v, err)
		}
		_, err = create("https://bad.example/", "run.started", "company.created", "run.failed", "run.completed,run.failed", strings.Repeat("x", 1000))
		e := fault.From(err)
		var fields []string
		for _, f := range e.Fields {
			fields = append(fields, f.Field)
			if len(f.Message) > 1000 {
				t.Errorf("the message is %s", f.Message)
			}
		}
		if e.Kind != fault.Invalid || cmp.Diff([]string{"events", "events", "events", "events", "url"}, fields) != "" {
			t.Errorf("refused with %v of %v", err, fields)
		}
		for range 49 {
			h.subscribe("run.failed")
		}
		if _, err := create("https://receiver.example/", "run.failed"); fault.From(err).Code != "limit_reached" || !fault.Is(err, fault.Invalid) {
			t.Errorf("the 51st is refused with %v", err)
		}
		if _, err := call[any](h, "deleteWebhook", func(in any) { set(in, "WebhookID", v.WebhookID) }); err != nil {
			t.Fatal(err)
		}
		h.subscribe("run.failed")
	})
}
