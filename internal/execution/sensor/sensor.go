// Package sensor lets other systems wake agents: a sensor is an address that
// anybody may call who can sign, and each call starts a run of the sensor's
// agent (interface.md section 4, Webhook rules; decisions.md D9, D13).
//
// # What belongs together
//
// A call spends a trigger in the transaction that stores its run. Of calls
// that race for the last trigger one starts a run and the others change
// nothing; a run that is refused (by a quota, say) costs no trigger.
package sensor

import (
	"time"

	"agentd/internal/base/secret"
)

// Bounds of sensors.
const (
	// MaxBody is how long a call's body may be, in bytes.
	MaxBody = 10 << 20

	maxActive  = 100 // of one company
	maxOfAgent = 20  // active, of one agent

	// keptAfterEnd is how long a sensor stays in the list that takes no more
	// calls; until then they are told so.
	keptAfterEnd = 30 * 24 * time.Hour
	// repeatable is how long a call is known again by its id.
	repeatable = 24 * time.Hour
)

// Sensor is one as it is stored.
type Sensor struct {
	TenantID, ID    string
	AgentID         string
	MadeByRun       string // the run whose agent made it; "": a person did
	Instructions    string
	Sealed          []byte // the secret; empty: calls are not signed
	MaxTriggers     int64  // 0: any number
	Triggers        int64  // calls that made a run
	ExpiresAt       time.Time
	EndedAt         time.Time // the last trigger was spent, or the agent deleted; zero: neither
	CreatedAt       time.Time
	LastTriggeredAt time.Time // zero: never
}

// Status of a sensor.
type Status string

// The statuses. Only active ones take calls.
const (
	Active  Status = "active"
	Spent   Status = "spent"   // every trigger was used
	Expired Status = "expired" // its time is over
	Ended   Status = "ended"   // its agent was deleted
)

func (s *Sensor) signed() bool { return len(s.Sealed) > 0 }

// limitless says whether nothing bounds what strangers can start.
func (s *Sensor) limitless() bool { return !s.signed() && s.MaxTriggers == 0 }

func (s *Sensor) status(now time.Time) Status {
	switch {
	case s.MaxTriggers > 0 && s.Triggers >= s.MaxTriggers:
		return Spent
	case !s.EndedAt.IsZero():
		return Ended
	case !s.ExpiresAt.IsZero() && !s.ExpiresAt.After(now):
		return Expired
	}
	return Active
}

// sealContext binds a sealed secret to its sensor.
func (s *Sensor) sealContext() string { return "sensor/" + s.TenantID + "/" + s.ID }

// View is a sensor as its company sees it.
type View struct {
	_ struct{} `json:"-" name:"Sensor"`

	WebhookID       string     `json:"webhook_id" format:"uuid" required:"true"`
	URL             string     `json:"url" required:"true" doc:"Where to POST to."`
	AgentID         string     `json:"agent_id" format:"uuid" required:"true" doc:"Whose runs calls start."`
	Instructions    string     `json:"instructions" required:"true" doc:"What the agent is told with each call."`
	Secret          string     `json:"secret,omitzero" doc:"What calls are signed with: shown when the sensor is made, redacted ever after. Absent where calls are not signed."`
	Unsigned        bool       `json:"unsigned" required:"true" doc:"Whoever knows the address may call it."`
	MaxTriggers     *int64     `json:"max_triggers" required:"true" doc:"How many runs it starts; null: any number."`
	Triggers        int64      `json:"triggers" required:"true" doc:"How many it has started."`
	Status          Status     `json:"status" enum:"active,spent,expired,ended" required:"true" doc:"Calls are taken while it is active. ended: its agent was deleted."`
	ExpiresAt       *time.Time `json:"expires_at" required:"true" doc:"null: never."`
	CreatedAt       time.Time  `json:"created_at" required:"true"`
	LastTriggeredAt *time.Time `json:"last_triggered_at" required:"true"`
	MadeByRunID     string     `json:"made_by_run_id,omitzero" format:"uuid" doc:"The run in which the agent made it itself."`
}

// view shows a sensor without its secret.
func (s *Service) view(of *Sensor) *View {
	v := &View{
		WebhookID: of.ID, URL: s.Public() + calledAt + of.ID, AgentID: of.AgentID, Instructions: of.Instructions,
		Unsigned: !of.signed(), Triggers: of.Triggers, Status: of.status(s.Clock.Now()),
		ExpiresAt: moment(of.ExpiresAt), CreatedAt: of.CreatedAt, LastTriggeredAt: moment(of.LastTriggeredAt), MadeByRunID: of.MadeByRun,
	}
	if of.signed() {
		v.Secret = secret.Redacted
	}
	if of.MaxTriggers > 0 {
		v.MaxTriggers = &of.MaxTriggers
	}
	return v
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
