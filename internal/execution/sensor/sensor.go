// Package sensor lets other systems start runs: a sensor is a URL that can be
// called with a signed request, and each call starts a run of the sensor's agent.
//
// A call uses a trigger in the transaction that stores its run. If several calls
// race for the last trigger, one starts a run and the others change nothing. A run
// that is refused, for example by a quota, uses no trigger.
package sensor

import (
	"time"

	"agentd/internal/base/route"
	"agentd/internal/base/secret"
)

// The limits of sensors.
const (
	// MaxBody is the maximum size of a call's body, in bytes.
	MaxBody = 10 << 20

	maxActive         = 100 // active sensors of a tenant
	maxActivePerAgent = 20  // active sensors of an agent

	// endedRetention is how long a sensor that takes no more calls is kept. Until
	// then its callers receive 410.
	endedRetention = 30 * 24 * time.Hour
	// repeatWindow is how long a repeated call is recognized by its id.
	repeatWindow = 24 * time.Hour
)

// Sensor is a sensor as stored.
type Sensor struct {
	TenantID, ID    string
	AgentID         string
	CreatedByRun    string // the run whose agent created it; "": a person did
	Instructions    string
	Sealed          []byte // the secret; empty: calls are not signed
	MaxTriggers     int64  // 0: any number
	Triggers        int64  // calls that started a run
	ExpiresAt       time.Time
	EndedAt         time.Time // when the last trigger was used or the agent deleted; zero: neither
	CreatedAt       time.Time
	LastTriggeredAt time.Time // zero: never
}

// Status is the status of a sensor.
type Status string

// The statuses. Only active sensors take calls.
const (
	Active  Status = "active"
	Spent   Status = "spent"   // every trigger was used
	Expired Status = "expired" // its expiry has passed
	Ended   Status = "ended"   // its agent was deleted
)

func (s *Sensor) signed() bool { return len(s.Sealed) > 0 }

// unlimited reports whether callers without the secret could start any number of
// runs.
func (s *Sensor) unlimited() bool { return !s.signed() && s.MaxTriggers == 0 }

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

// View is a sensor as the API shows it.
type View struct {
	_ struct{} `json:"-" name:"Sensor"`

	WebhookID       string     `json:"webhook_id" format:"uuid" required:"true"`
	URL             string     `json:"url" required:"true" doc:"The URL to POST to."`
	AgentID         string     `json:"agent_id" format:"uuid" required:"true" doc:"The agent that calls run."`
	Instructions    string     `json:"instructions" required:"true" doc:"Instructions to the agent for each call."`
	Secret          string     `json:"secret,omitzero" doc:"Signs the calls. Shown in full only when the sensor is created; absent if calls are not signed."`
	Unsigned        bool       `json:"unsigned" required:"true" doc:"Anyone who knows the URL may call it."`
	MaxTriggers     *int64     `json:"max_triggers" required:"true" doc:"Maximum number of runs; null if unlimited."`
	Triggers        int64      `json:"triggers" required:"true" doc:"Number of runs started so far."`
	Status          Status     `json:"status" enum:"active,spent,expired,ended" required:"true" doc:"Only active sensors take calls; ended means that the agent was deleted."`
	ExpiresAt       *time.Time `json:"expires_at" required:"true" doc:"Null if it does not expire."`
	CreatedAt       time.Time  `json:"created_at" required:"true"`
	LastTriggeredAt *time.Time `json:"last_triggered_at" required:"true"`
	MadeByRunID     string     `json:"made_by_run_id,omitzero" format:"uuid" doc:"The run in which the agent created it."`
	route.Repetition
}

// WithoutSecret implements route.ShownOnce.
func (v *View) WithoutSecret() any {
	repeated := *v
	if v.Secret != "" && v.Secret != secret.Redacted {
		repeated.Secret, repeated.Repetition = secret.Redacted, route.Repeated
	}
	return &repeated
}

// view returns a sensor without its secret.
func (s *Service) view(of *Sensor) *View {
	v := &View{
		WebhookID: of.ID, URL: s.Public() + callPath + of.ID, AgentID: of.AgentID, Instructions: of.Instructions,
		Unsigned: !of.signed(), Triggers: of.Triggers, Status: of.status(s.Clock.Now()),
		ExpiresAt: optionalTime(of.ExpiresAt), CreatedAt: of.CreatedAt, LastTriggeredAt: optionalTime(of.LastTriggeredAt),
		MadeByRunID: of.CreatedByRun,
	}
	if of.signed() {
		v.Secret = secret.Redacted
	}
	if of.MaxTriggers > 0 {
		v.MaxTriggers = &of.MaxTriggers
	}
	return v
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
