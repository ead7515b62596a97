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

	"agentd/internal/agents/agent"
)

// Config is what a client configures: the agent's field.
type Config struct {
	_ struct{} `json:"-" name:"ScheduleConfig"`
	agent.Schedule
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
