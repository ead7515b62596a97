package sensor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/ident"
	"agentd/internal/execution/sensor"
	"agentd/internal/kernel/tool"
)

func TestListenWebhook(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *harness) {
		agentID := r.agent()
		listen := r.Tool()
		call := tool.Call{
			TenantID: r.who.TenantID, AgentID: agentID, RunID: ident.New(), StepID: ident.New(), ID: "call_1", Name: listen.Name,
			Arguments: `{"instructions":"Look at it."}`,
		}
		do := func(c tool.Call) tool.Result {
			t.Helper()
			got, err := listen.Run(t.Context(), c)
			r.fatal(err)
			return got
		}
		first := do(call)
		var got struct {
			WebhookID   string    `json:"webhook_id"`
			URL         string    `json:"url"`
			Secret      string    `json:"secret"`
			MaxTriggers int64     `json:"max_triggers"`
			ExpiresAt   time.Time `json:"expires_at"`
			How         string    `json:"how_to_call"`
		}
		r.fatal(json.Unmarshal([]byte(first.Output), &got))
		if first.Failed || got.MaxTriggers != 10 || !got.ExpiresAt.Equal(r.clock.Now().Add(30*24*time.Hour)) || !strings.HasPrefix(got.Secret, "whsec_") ||
			!strings.HasSuffix(got.URL, got.WebhookID) || !strings.Contains(got.How, "X-Sensor-Signature") {
			t.Errorf("%+v", first)
		}
		v := r.read(got.WebhookID)
		if v.AgentID != agentID || v.Instructions != "Look at it." || v.MadeByRunID != call.RunID {
			t.Errorf("%+v", v)
		}
		if _, err := r.send(v.WebhookID, sensor.Sign(got.Secret, []byte("x")), "x"); err != nil || len(r.started(agentID)) != 1 {
			t.Errorf("its secret does not sign: %v", err)
		}

		r.advance(time.Minute) // the node died, and another makes the call again
		if again := do(call); again.Output != first.Output {
			t.Errorf("repeated: %s, not %s", again.Output, first.Output)
		}
		other := call
		other.StepID, other.Arguments = ident.New(), `{"instructions":"Look \u0000 at it.","max_triggers":2}`
		if got := do(other); !strings.Contains(got.Output, `"max_triggers":2`) || strings.Contains(got.Output, v.WebhookID) {
			t.Errorf("another call: %s", got.Output)
		}
		outcomes, _ := concurrently(4, func(int) (string, error) {
			c := call
			c.StepID = ""
			got, err := listen.Run(t.Context(), c)
			return got.Output, err
		})
		for _, o := range outcomes {
			if o != outcomes[0] {
				t.Errorf("one call created two sensors: %v", outcomes)
			}
		}
		if n, err := r.store.Count(t.Context(), r.who.TenantID); n != 3 || err != nil {
			t.Errorf("%d sensors (%v)", n, err)
		}
		if len(r.log) != 3 || !strings.Contains(string(r.log[0].Details), call.RunID) {
			t.Errorf("audit: %+v", r.log)
		}

		r.fill(agentID, sensor.MaxActivePerAgent-3)
		other.StepID = ident.New()
		if got := do(other); !got.Failed || !strings.Contains(got.Output, "which is the maximum") {
			t.Errorf("one too many: %+v", got)
		}
		if got := do(call); got.Output != first.Output { // it is there, and no further one
			t.Errorf("again at the limit: %+v", got)
		}
		other.AgentID = ident.New()
		if got := do(other); !got.Failed {
			t.Errorf("for a deleted agent: %+v", got)
		}
		call.Arguments = `{`
		if _, err := listen.Run(t.Context(), call); err == nil {
			t.Error("invalid arguments were accepted")
		}
	})
}
