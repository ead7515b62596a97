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

// What a sensor has that an agent makes and does not say.
const (
	usualTriggers = 10
	usualLife     = 30 * 24 * time.Hour
)

// Tool is listen_webhook, by which an agent makes a sensor for itself
// (decisions.md D12, D13). A call that is repeated after a crash finds what the
// first one made, and gives the same. The secret is in its result, and so in
// the run's journal: the agent has to hand it to whoever is to call.
func (s *Service) Tool() tool.Tool {
	return tool.Tool{
		Name: "listen_webhook",
		Description: fmt.Sprintf("Makes a web address that another system can call. Each call starts a new run of you, which gets your instructions and what was sent; "+
			"it knows nothing of this conversation. Gives the address and the secret that calls must be signed with: hand both to whoever is to call, and to nobody else. "+
			"The address works for %d days, and for %d calls unless you say otherwise.", int(usualLife.Hours()/24), usualTriggers),
		Parameters: jsontext.Value(`{"type":"object","properties":{` +
			`"instructions":{"type":"string","minLength":1,"maxLength":20000,"description":"What you shall do when it is called; it must say everything that you need to know then"},` +
			`"max_triggers":{"type":"integer","minimum":1,"maximum":1000,"description":"How many calls it takes"}},` +
			`"required":["instructions"],"additionalProperties":false}`),
		Idempotent: true,
		Run:        s.listen,
	}
}

// heard is the tool's result.
type heard struct {
	WebhookID   string    `json:"webhook_id"`
	URL         string    `json:"url"`
	Secret      string    `json:"secret"`
	MaxTriggers int64     `json:"max_triggers"`
	ExpiresAt   time.Time `json:"expires_at"`
	HowToCall   string    `json:"how_to_call"`
}

const howToCall = "POST any body to url with the header X-Sensor-Signature: 'sha256=' and the hex HMAC-SHA256 of the raw body, keyed with secret as it stands."

func (s *Service) listen(ctx context.Context, call tool.Call) (tool.Result, error) {
	args := struct {
		Instructions string `json:"instructions"`
		MaxTriggers  int64  `json:"max_triggers"`
	}{MaxTriggers: usualTriggers}
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
		_, err := s.create(ctx, authz.Caller{TenantID: call.TenantID}, wish{
			id: id, agentID: call.AgentID, run: call.RunID, instructions: readable([]byte(args.Instructions)), maxTriggers: args.MaxTriggers,
			expiresAt: s.Clock.Now().UTC().Add(usualLife).Truncate(time.Second),
		})
		if f := fault.From(err); f != nil && (f.Kind == fault.Invalid || f.Kind == fault.NotFound) {
			return tool.Failure(f.Detail), nil
		}
		if err != nil {
			return tool.Result{}, err
		}
		// Also where another worker that had the run was quicker.
		if of, err = s.Store.Get(ctx, call.TenantID, id); err != nil {
			return tool.Result{}, err
		}
	}
	if of == nil {
		return tool.Failure("The address was taken away again at once. Ask somebody why, before you make another."), nil
	}
	key, err := s.secretOf(of)
	if err != nil {
		return tool.Result{}, err
	}
	out, err := json.Marshal(heard{of.ID, s.view(of).URL, key, of.MaxTriggers, of.ExpiresAt, howToCall})
	return tool.Result{Output: string(out)}, err
}
