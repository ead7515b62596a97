package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/pii"
	"agentd/internal/base/redact"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

const private = "ada.lovelace@example.com"

// posting is a model that has a mail sent to the address of the message, and then tells
// whom it was sent to, in pieces that cut the address.
func posting(req modeltest.Request) modeltest.Answer {
	chat := req.Chat()
	if result := chat.Last(model.Tool); result != "" {
		return modeltest.Answer{Text: "Told " + private + " and no one else.", Pieces: []string{"Told ada.love", "lace@exam", "ple.com and", " no one else."}}
	}
	to := "nobody"
	if strings.Contains(chat.Last(model.User), private) {
		to = private
	}
	return modeltest.Answer{
		Thinking: "It goes to " + private, Text: "One moment.",
		ToolCalls: []model.ToolCall{{ID: "post", Name: "post", Arguments: `{"to":"` + to + `"}`}},
	}
}

// mailbox is a tool that keeps what it was called with, and repeats it.
type mailbox struct {
	mu   sync.Mutex
	sent []string
}

func (m *mailbox) tool() tool.Tool {
	return tool.Tool{
		Name: "post", Parameters: jsontext.Value(`{"type":"object"}`),
		Run: func(_ context.Context, c tool.Call) (tool.Result, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.sent = append(m.sent, c.Arguments)
			return tool.Result{Output: "sent " + c.Arguments}, nil
		},
	}
}

// checkNothingStored searches all rows of runs for what the tenant does not store.
func (r *harness) checkNothingStored(when string) {
	r.t.Helper()
	for _, table := range []string{"runs", "run_steps", "run_events", "approvals"} {
		rows, err := r.db.Query(r.t.Context(), `SELECT * FROM `+table+` WHERE tenant_id = ?`, r.who.TenantID)
		if err != nil {
			r.t.Fatal(err)
		}
		columns, err := rows.Columns()
		if err != nil {
			r.t.Fatal(err)
		}
		for rows.Next() {
			values, into := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			if err := rows.Scan(into...); err != nil {
				r.t.Fatal(err)
			}
			for i, v := range values {
				text := fmt.Sprint(v)
				if b, ok := v.([]byte); ok {
					text = string(b)
				}
				if strings.Contains(text, "lovelace") {
					r.t.Errorf("%s: %s.%s has %s", when, table, columns[i], text)
				}
			}
		}
		rows.Close()
	}
}

func newPrivateHarness(t *testing.T, db *sqldb.DB, box *mailbox) *harness {
	r := newHarness(t, db, modeltest.Respond(posting))
	r.redacts = func(string) *redact.Redactor { return redact.New(pii.Email) }
	r.tools = []tool.Tool{box.tool()}
	r.agents.spec.Tools = []string{"post"}
	return r
}

var privateRequest = run.Request{Input: []byte(`{"message":"Write to ` + private + `"}`), Metadata: []byte(`{"for":"` + private + `"}`)}

// What a tenant does not store reaches its model and its tools, and neither rows nor
// events.
func TestRedactedAtWrite(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		box := &mailbox{}
		r := newPrivateHarness(t, db, box)
		var live strings.Builder
		n := r.start("node", 4, nil)
		began := n.begin(privateRequest)
		if text := string(began.Input) + string(began.Metadata); strings.Contains(text, "lovelace") {
			t.Errorf("the answer to the request has %s", text)
		}
		got := n.end(began.RunID)
		if out := r.output(got); out.Text != "Told [EMAIL] and no one else." {
			t.Errorf("the run is %s with %q", got.Status, out.Text)
		}
		if len(box.sent) != 1 || !strings.Contains(box.sent[0], private) {
			t.Errorf("the tool was called with %q", box.sent)
		}
		events, err := r.log.Read(t.Context(), r.who.TenantID, got.RunID, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Name == "llm.chunk" {
				var data struct {
					Text string `json:"text"`
				}
				if err := json.Unmarshal(e.Data, &data); err != nil {
					t.Fatal(err)
				}
				live.WriteString(data.Text)
			}
		}
		if live.String() != "One moment.Told [EMAIL] and no one else." {
			t.Errorf("the chunks say %q", live.String())
		}
		r.checkNothingStored("at the end")
	})
}

// The process dies at every write in turn. Nothing is ever stored, no tool is called
// without what was replaced, and the run goes on with what is stored.
func TestRedactedRunSurvivesCrashes(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for at := 2; ; at++ {
			box := &mailbox{}
			r := newPrivateHarness(t, db, box)
			writer := dieAtWrite(db, at)
			first := r.start(fmt.Sprintf("first-%d", at), 4, writer)
			began := first.begin(privateRequest)
			waitFor(t, func() bool {
				got, err := first.Get(t.Context(), r.who.TenantID, began.RunID)
				return writer.died() || err == nil && got.Status.Final()
			})
			first.stop()
			r.checkNothingStored(fmt.Sprintf("after the crash at %d", at))
			if !writer.died() {
				return
			}
			second := r.start(fmt.Sprintf("first-%d", at), 4, nil)
			got := second.end(began.RunID)
			second.stop()
			if got.Status != run.Completed {
				t.Errorf("crash at %d: the run is %s: %v", at, got.Status, got.Error)
			}
			for _, sent := range box.sent {
				if strings.Contains(sent, "[EMAIL]") {
					t.Errorf("crash at %d: the tool was called with %s", at, sent)
				}
			}
			r.checkNothingStored(fmt.Sprintf("crash at %d, at the end", at))
		}
	})
}

// A call that waits for a person could not be made afterwards, so no approval is requested.
func TestRedactedCallsAreNotApproved(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		box := &mailbox{}
		r := newPrivateHarness(t, db, box)
		r.agents.spec.ApprovalTools = []string{"post"}
		n := r.start("node", 4, nil)
		got := n.end(n.begin(privateRequest).RunID)
		if got.Status != run.Completed || len(box.sent) > 0 {
			t.Errorf("the run is %s and the tool was called with %q", got.Status, box.sent)
		}
		refused := false
		for _, s := range r.steps(got.RunID) {
			refused = refused || strings.Contains(string(s.Output), "not called: it waits for a person")
		}
		if !refused {
			t.Error("the model was not told why the call was not made")
		}
		r.checkNothingStored("at the end")
	})
}
