package sensor

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/tool"
)

// The defaults of sensors that agents create.
const (
	defaultTriggers = 10
	defaultLifetime = 30 * 24 * time.Hour
)

// Tool returns listen_webhook, with which an agent creates a sensor for itself. A
// call that is repeated after a crash finds the sensor of the first one and
// returns the same. The result contains the secret, so the run's journal does too:
// the agent must pass it to the system that will call.
func (s *Service) Tool() tool.Tool {
	return tool.Tool{
		Name: "listen_webhook",
		Description: fmt.Sprintf("Creates a URL that another system can call. Each call starts a new run of you, which receives your "+
			"instructions and what was sent; it does not know this conversation. Returns the URL and the secret that must sign the calls: "+
			"pass both to the system that will call, and to no one else. "+
			"The URL works for %d days, and for %d calls unless you set max_triggers.", int(defaultLifetime.Hours()/24), defaultTriggers),
		Parameters: jsontext.Value(`{"type":"object","properties":{` +
			`"instructions":{"type":"string","minLength":1,"maxLength":20000,` +
			`"description":"What to do when it is called; include everything that you need to know then"},` +
			`"max_triggers":{"type":"integer","minimum":1,"maximum":1000,"description":"Maximum number of calls"}},` +
			`"required":["instructions"],"additionalProperties":false}`),
		Idempotent: true,
		Run:        s.listen,
	}
}

// listenResult is the result of the tool.
type listenResult struct {
	WebhookID   string    `json:"webhook_id"`
	URL         string    `json:"url"`
	Secret      string    `json:"secret"`
	MaxTriggers int64     `json:"max_triggers"`
	ExpiresAt   time.Time `json:"expires_at"`
	HowToCall   string    `json:"how_to_call"`
}

const howToCall = "POST any body to url with the header X-Sensor-Signature: 'sha256=' " +
	"and the hex HMAC-SHA256 of the raw body, keyed with secret."

func (s *Service) listen(ctx context.Context, call tool.Call) (tool.Result, error) {
	args := struct {
		Instructions string `json:"instructions"`
		MaxTriggers  int64  `json:"max_triggers"`
	}{MaxTriggers: defaultTriggers}
	if err := json.Unmarshal([]byte(call.Arguments), &args); err != nil {
		return tool.Result{}, err
	}
	id := ident.Derive(call.RunID, "sensor", call.StepID)
	if call.StepID == "" {
		id = ident.Derive(call.RunID, "sensor", call.ID, call.Arguments)
	}
	of, err := s.Store.Get(ctx, call.TenantID, id)
	if err != nil {
		return tool.Result{}, err
	}
	if of == nil {
		_, err := s.create(ctx, authz.Caller{TenantID: call.TenantID}, newSensor{
			id: id, agentID: call.AgentID, runID: call.RunID, instructions: readable([]byte(args.Instructions)), maxTriggers: args.MaxTriggers,
			expiresAt: s.Clock.Now().UTC().Add(defaultLifetime).Truncate(time.Second),
		})
		if f := fault.From(err); f != nil && (f.Kind == fault.Invalid || f.Kind == fault.NotFound) {
			return tool.Failure(f.Detail), nil
		}
		if err != nil {
			return tool.Result{}, err
		}
		// create returns nil if another worker that had the run was first.
		if of, err = s.Store.Get(ctx, call.TenantID, id); err != nil {
			return tool.Result{}, err
		}
	}
	if of == nil {
		return tool.Failure("The sensor was deleted right after it was created. Ask a person why before you create another."), nil
	}
	key, err := s.secretOf(of)
	if err != nil {
		return tool.Result{}, err
	}
	out, err := json.Marshal(listenResult{of.ID, s.view(of).URL, key, of.MaxTriggers, of.ExpiresAt, howToCall})
	return tool.Result{Output: string(out)}, err
}
