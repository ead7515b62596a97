// Package schedule starts runs of agents by the clock.
//
// The configuration of a schedule is the agent's field "schedule" and nothing
// else: the operations here read and write that field. Its progress (the next
// fire, the failures) is a [State], which is kept in line with the agent: in
// the same transaction where the schedule is written here, and by the agent's
// change events otherwise. The next fire is a work item; the node that holds
// it stores the run and advances the schedule in one transaction.
package schedule

import (
	"time"

	"agentd/internal/base/schema"
)

// Config is what a client configures. The tag restarts reports whether a change of
// a field restarts the schedule: it forgets that it was paused and its
// failures, and its next fire is computed again. Add a field with "false" unless
// it decides when runs start or what they do.
type Config struct {
	_ struct{} `json:"-" name:"ScheduleConfig"`

	Cron             string        `json:"cron" required:"true" minLength:"1" maxLength:"200" restarts:"true" doc:"When: minute, hour, day of the month, month and day of the week."`
	Enabled          bool          `json:"enabled" default:"true" restarts:"true" doc:"Whether it fires at all."`
	Input            schema.Object `json:"input" restarts:"true" doc:"Input of the runs. Without a message, a default one says that the schedule started the run."`
	Timezone         string        `json:"timezone" default:"UTC" minLength:"1" maxLength:"64" restarts:"true" doc:"IANA name of the time zone that cron is read in."`
	MaxConcurrent    int           `json:"max_concurrent_scheduled" default:"1" minimum:"1" maximum:"100" restarts:"true" doc:"Fires are skipped while this many of its runs have not ended."`
	OnFailure        FailurePolicy `json:"on_failure" enum:"continue,pause,alert,retry_next,pause_schedule,notify" default:"continue" restarts:"true" doc:"After a failed run: continue, pause the schedule, or send an alert. Also accepted: retry_next, pause_schedule and notify."`
	AutonomousMode   bool          `json:"autonomous_mode" default:"false" restarts:"true" doc:"Runs get reflection_prompt as their message instead of input."`
	ReflectionPrompt string        `json:"reflection_prompt" maxLength:"20000" restarts:"true" doc:"The message of the runs of an autonomous agent."`
	Misfire          string        `json:"misfire" enum:"once,skip" default:"once" restarts:"true" doc:"Missed fires: run the newest once if it is less than a day old, or skip them."`
}

// FailurePolicy is what follows a failed run of a schedule.
type FailurePolicy string

// The failure policies.
const (
	Continue FailurePolicy = "continue"
	Pause    FailurePolicy = "pause"
	Alert    FailurePolicy = "alert"
)

// UnmarshalText implements encoding.TextUnmarshaler. It reads the other names
// of the policies, which some clients send, as the policies that they mean.
func (p *FailurePolicy) UnmarshalText(name []byte) error {
	switch *p = FailurePolicy(name); *p {
	case "retry_next":
		*p = Continue
	case "pause_schedule":
		*p = Pause
	case "notify":
		*p = Alert
	}
	return nil
}

// What Config.Misfire can be.
const (
	MisfireOnce = "once"
	MisfireSkip = "skip"
)

// Status of a schedule, independent of Config.Enabled.
type Status string

// The statuses. A paused schedule fires again once it is replaced or changed.
// One in error could not start its last run, or cannot be read; it continues
// by itself.
const (
	Active Status = "active"
	Paused Status = "paused"
	Failed Status = "error"
)

// Why a fire was skipped.
const (
	SkipConcurrency = "concurrency"      // too many runs of the schedule had not ended
	SkipMissed      = "missed"           // no node was running when it was due
	SkipSuspended   = "tenant_suspended" // the tenant is suspended
	SkipRefused     = "refused"          // the run was refused
)

// State is the progress of a schedule.
type State struct {
	TenantID, AgentID string

	Config        string // the configuration that this state was last synced with; see Config.stored
	Status        Status
	Problem       string    // of Failed: why, as a sentence
	NextRunAt     time.Time // zero: there is no next fire
	LastFiredAt   time.Time // the newest fire that started a run; zero: none
	LastSkippedAt time.Time // the newest fire that started none; zero: none
	SkipReason    string    // of LastSkippedAt
	Failures      int64     // runs that failed since one completed
	Revision      int64     // incremented by every write
}

// Schedule is a schedule as callers see it: its configuration and its progress.
type Schedule struct {
	_ struct{} `json:"-" name:"Schedule"`

	AgentID string `json:"agent_id" format:"uuid" required:"true"`
	Config

	NextRunAt           *time.Time `json:"next_run_at" doc:"The next fire; null while there is none."`
	Status              Status     `json:"status" enum:"active,paused,error" doc:"paused: a run failed and on_failure is pause; error: see problem."`
	Problem             string     `json:"problem,omitzero" doc:"Why the status is error."`
	LastFiredAt         *time.Time `json:"last_fired_at" doc:"The newest fire that started a run."`
	ConsecutiveFailures int64      `json:"consecutive_failures" doc:"Runs that failed since one completed."`
	LastSkippedAt       *time.Time `json:"last_skipped_at" doc:"The newest fire that started no run."`
	LastSkipReason      string     `json:"last_skip_reason,omitzero" enum:"concurrency,missed,tenant_suspended,refused" doc:"Why the newest skipped fire started no run."`
}

// Editable implements route.Editable.
func (s *Schedule) Editable() any {
	if s == nil {
		return nil
	}
	return s.Config
}

func show(agentID string, c *Config, st *State) *Schedule {
	return &Schedule{
		AgentID: agentID, Config: *c, NextRunAt: moment(st.NextRunAt), Status: st.Status, Problem: st.Problem,
		LastFiredAt: moment(st.LastFiredAt), ConsecutiveFailures: st.Failures,
		LastSkippedAt: moment(st.LastSkippedAt), LastSkipReason: st.SkipReason,
	}
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
