package agent

import "agentd/internal/base/schema"

// Schedule is when an agent runs by itself. Package schedule checks and runs it.
//
// The tag restarts reports whether a change of a field restarts the schedule: it
// forgets that it was paused and its failures, and its next fire is computed again.
// Add a field with "false" unless it decides when runs start or what they do.
type Schedule struct {
	_ struct{} `json:"-" name:"AgentSchedule"`

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
	ContinueAfterFailure FailurePolicy = "continue"
	PauseAfterFailure    FailurePolicy = "pause"
	AlertAfterFailure    FailurePolicy = "alert"
)

// UnmarshalText implements encoding.TextUnmarshaler. It reads the other names
// of the policies, which some clients send, as the policies that they mean.
func (p *FailurePolicy) UnmarshalText(name []byte) error {
	switch *p = FailurePolicy(name); *p {
	case "retry_next":
		*p = ContinueAfterFailure
	case "pause_schedule":
		*p = PauseAfterFailure
	case "notify":
		*p = AlertAfterFailure
	}
	return nil
}
