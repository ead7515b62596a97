// Package schedule starts runs of agents by the clock (interface.md section 2,
// Schedule; behaviours.md section 24).
//
// What is configured is the agent's own field "schedule", and nothing else: the
// operations here read and write that field. What a schedule has come to (its
// next fire, its failures) is a [State], which follows the agent: in the same
// transaction where the schedule is written here, and by the agent's change
// events otherwise. The next fire is an item of work; whichever node holds it
// stores the run and moves the schedule on in one transaction.
package schedule

import (
	"time"

	"agentd/internal/base/schema"
)

// Config is what a client configures.
type Config struct {
	_ struct{} `json:"-" name:"ScheduleConfig"`

	Cron             string        `json:"cron" required:"true" minLength:"1" maxLength:"200" doc:"When: minute, hour, day of the month, month and day of the week."`
	Enabled          bool          `json:"enabled" default:"true" doc:"Whether it fires at all."`
	Input            schema.Object `json:"input" doc:"Input of the runs. Without a message in it, one says that the schedule started the run."`
	Timezone         string        `json:"timezone" default:"UTC" minLength:"1" maxLength:"64" doc:"IANA name of the time zone that cron is read in."`
	MaxConcurrent    int           `json:"max_concurrent_scheduled" default:"1" minimum:"1" maximum:"100" doc:"While so many of its runs have not ended, fires are skipped."`
	OnFailure        string        `json:"on_failure" enum:"continue,pause,alert" default:"continue" doc:"What a run that fails leads to: nothing, no more fires, or a notification."`
	AutonomousMode   bool          `json:"autonomous_mode" default:"false" doc:"Runs get reflection_prompt as their message instead of input."`
	ReflectionPrompt string        `json:"reflection_prompt" maxLength:"20000" doc:"What an autonomous agent is asked at each fire."`
	Misfire          string        `json:"misfire" enum:"once,skip" default:"once" doc:"What happens to fires that were missed: the newest is made up for if it is less than a day old, or none is."`
}

// What Config.OnFailure and Config.Misfire can be.
const (
	Continue = "continue"
	Pause    = "pause"
	Alert    = "alert"

	MisfireOnce = "once"
	MisfireSkip = "skip"
)

// Status of a schedule; it says nothing about Config.Enabled.
type Status string

// The statuses. A paused schedule fires again once it is written anew; one in
// error could not start its last run, or cannot be read, and goes on by itself.
const (
	Active Status = "active"
	Paused Status = "paused"
	Failed Status = "error"
)

// Why a fire was skipped.
const (
	SkipConcurrency = "concurrency"      // too many runs of the schedule had not ended
	SkipMissed      = "missed"           // it was due while nobody could make it
	SkipSuspended   = "tenant_suspended" // the company is suspended
	SkipRefused     = "refused"          // the run was refused
)

// State is what a schedule has come to.
type State struct {
	TenantID, AgentID string

	Config        string    // the agent's field that this state is of, in canonical form
	Status        Status    //
	Problem       string    // of Failed: why, as a sentence
	NextRunAt     time.Time // zero: there is no next fire
	LastFiredAt   time.Time // the newest fire that made a run; zero: none
	LastSkippedAt time.Time // the newest fire that made none; zero: none
	SkipReason    string    // of LastSkippedAt
	Failures      int64     // runs that failed since the last that completed
	Revision      int64     // one more with every write
}

// Schedule is a schedule as callers see it.
type Schedule struct {
	_ struct{} `json:"-" name:"Schedule"`

	AgentID string `json:"agent_id" format:"uuid" required:"true"`
	Config

	NextRunAt           *time.Time `json:"next_run_at" doc:"The next fire; null while there is none."`
	Status              Status     `json:"status" enum:"active,paused,error" doc:"paused: a run failed and on_failure is pause; error: see problem."`
	Problem             string     `json:"problem,omitzero" doc:"Why the status is error."`
	LastFiredAt         *time.Time `json:"last_fired_at" doc:"The newest fire that started a run."`
	ConsecutiveFailures int64      `json:"consecutive_failures" doc:"How many of its runs failed since one completed."`
	LastSkippedAt       *time.Time `json:"last_skipped_at" doc:"The newest fire that started no run."`
	LastSkipReason      string     `json:"last_skip_reason,omitzero" enum:"concurrency,missed,tenant_suspended,refused" doc:"Why it did not."`
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
