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

// An event is in the outbox for those who want it, and if and only if its
// transaction commits.
func TestOutbox(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		one, two, other := r.hook("run.completed", "run.failed"), r.hook("run.completed"), r.hook("agent.created")
		undone := errors.New("undone")
		err := r.db.Write(t.Context(), func(tx txn.Tx) error {
			return errors.Join(r.Emit(tx, r.event("run.completed")), undone)
		})
		if !errors.Is(err, undone) || !r.due().IsZero() {
			t.Errorf("what was undone is work: %v", err)
		}
		e := r.event("run.completed")
		e.ID = ident.New()
		for range 2 { // told twice, sent once
			r.write(func(tx txn.Tx) error { return r.Emit(tx, e) })
		}
		foreign := r.event("run.completed")
		foreign.TenantID = ident.New()
		unwanted := r.event("quota.exceeded")
		unwanted.Data = func() (jsontext.Value, error) {
			t.Error("the data of an event is made that nobody wants")
			return nil, nil
		}
		r.write(func(tx txn.Tx) error { return errors.Join(r.Emit(tx, foreign), r.Emit(tx, unwanted)) })
		r.work()
		if a, b, c := len(r.log(one)), len(r.log(two)), len(r.log(other)); a != 1 || b != 1 || c != 0 {
			t.Errorf("delivered %d, %d and %d times", a, b, c)
		}
		failed := r.event("run.failed")
		failed.Data = func() (jsontext.Value, error) { return nil, undone }
		if err := r.db.Write(t.Context(), func(tx txn.Tx) error { return r.Emit(tx, failed) }); !errors.Is(err, undone) {
			t.Errorf("data that cannot be made: %v", err)
		}
	})
}

func TestRunEvents(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.hook(webhook.Names...)
		large := `"` + strings.Repeat("x", 65<<10) + `"`
		rec := run.Record{Run: run.Run{
			RunID: "run", TenantID: r.who.TenantID, AgentID: "agent",
			Input: []byte(`{"message":` + large + `}`), Output: []byte(`{"text":"fine"}`), Metadata: []byte(`{"a":"b"}`),
		}}
		type told struct{ Event, Status string }
		var got []told
		for _, status := range run.Statuses {
			rec.Status = status
			r.write(func(tx txn.Tx) error { return r.OnRunState(tx, &rec) })
		}
		r.write(func(tx txn.Tx) error {
			return r.Violated(tx, &rec, policy.Violation{GuardrailID: "g", Name: "manners", Stage: policy.Input, Action: policy.Block})
		})
		r.work()
		for _, a := range r.attempts() {
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
			got = append(got, told{a.EventType, d["status"].(string)})
			if fmt.Sprint(d["omitted"]) != "[input]" || fmt.Sprint(d["output"]) != "map[text:fine]" || fmt.Sprint(d["metadata"]) != "map[a:b]" {
				t.Errorf("the data is %v", d)
			}
			if _, told := d["artifacts"]; told {
				t.Error("files are told of")
			}
		}
		want := map[told]bool{
			{"run.completed", "completed"}: true, {"run.cancelled", "cancelled"}: true, {"run.failed", "failed"}: true,
			{"run.failed", "timeout"}: true, {"run.failed", "guardrail_blocked"}: true, {"run.failed", "rejected"}: true,
		}
		found := map[told]bool{}
		for _, g := range got {
			found[g] = true
		}
		if diff := cmp.Diff(want, found); diff != "" || len(got) != len(want) {
			t.Error(diff, got)
		}
	})
}

// What is too large is cut to JSON that is still valid and says so.
func TestCutBodies(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.hook("run.failed")
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
			e := r.event("run.failed")
			e.Data = func() (jsontext.Value, error) { return jsontext.Value(data), nil }
			r.write(func(tx txn.Tx) error { return r.Emit(tx, e) })
			r.work()
			all := r.attempts()
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
				t.Errorf("%s: what is small is %+v", name, d)
			}
			if name == "a text" && len(body) < 900<<10 {
				t.Errorf("of a text only %d bytes are left", len(body))
			}
		}
	})
}

func FuzzCut(f *testing.F) {
	f.Add(`{"a":"b","c":[1,2,{"d":"\ud83d\ude00"}],"truncated":1}`, 40)
	f.Add(`{"":"x","\n":"`+strings.Repeat("y", 300)+`"}`, 100)
	f.Fuzz(func(t *testing.T, object string, most int) {
		v := jsontext.Value(object)
		if !v.IsValid() || v.Kind() != '{' || most < 64 || most > 1<<20 {
			return
		}
		cut, err := webhook.Cut(v, most)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Truncated bool `json:"truncated"`
		}
		if err := json.Unmarshal(cut, &got); err != nil || !got.Truncated || len(cut) > most {
			t.Errorf("%d bytes of %d: %s, %v", len(cut), most, cut, err)
		}
	})
}

func TestCreation(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		create := func(url string, events ...string) (webhook.View, error) {
			return call[webhook.View](r, "createWebhook", func(in any) { setBody(in, url, events) })
		}
		v, err := create("https://receiver.example/", "company.paused", "run.failed", "initiative.paused")
		if err != nil || v.Status != webhook.Active || cmp.Diff([]string{"initiative.paused", "run.failed"}, v.Events) != "" {
			t.Errorf("made %+v, %v", v, err)
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
			r.hook("run.failed")
		}
		if _, err := create("https://receiver.example/", "run.failed"); fault.From(err).Code != "limit_reached" || !fault.Is(err, fault.Invalid) {
			t.Errorf("the 51st is refused with %v", err)
		}
		if _, err := call[any](r, "deleteWebhook", func(in any) { set(in, "WebhookID", v.WebhookID) }); err != nil {
			t.Fatal(err)
		}
		r.hook("run.failed")
	})
}
