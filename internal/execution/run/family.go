package run

import "agentd/internal/base/authz"

// InitiatorType says kind of thing starts runs.
type InitiatorType string

// The types of initiators.
const (
	ByKey      InitiatorType = "key"      // an API key
	ByMember   InitiatorType = "member"   // a person, in a browser session
	ByRun      InitiatorType = "run"      // a run that delegates
	BySchedule InitiatorType = "schedule" // of an agent, whose id it has
	BySensor   InitiatorType = "sensor"
	ByTodo     InitiatorType = "todo"    // of a session
	ByVisitor  InitiatorType = "visitor" // a stranger, in a public session
	// ByImprovement is the sandbox test of an improvement proposal.
	ByImprovement InitiatorType = "improvement"
	ByEvaluation  InitiatorType = "evaluation"
	ByPlatform    InitiatorType = "platform"
)

// Initiator is who or what started a run.
type Initiator struct {
	_ struct{} `json:"-" name:"RunInitiator"`

	Type InitiatorType `json:"type" enum:"key,member,run,schedule,sensor,todo,visitor,improvement,evaluation,platform" required:"true"`
	ID   string        `json:"id" required:"true" doc:"Of the key, member, run, sensor, todo, improvement proposal or evaluation; of the session, for a visitor; of the agent, for a schedule. Empty for the platform."`
	Name string        `json:"name,omitzero" doc:"What it is called; only with fields=summary."`
}

// SetInitiator stores who or what started the run; a run is its parent.
func (r *Run) SetInitiator(by Initiator) {
	r.StartedBy = &by
	if by.Type == ByRun {
		id := by.ID
		r.ParentRunID = &id
	}
}

// descend stores who or what starts the run, and where it stands in its family.
// Parent is nil where no run starts it.
func (r *Record) descend(who authz.Caller, req Request, parent *Record) {
	switch {
	case parent != nil:
		r.SetInitiator(Initiator{Type: ByRun, ID: parent.RunID})
		root := parent.RunID
		if parent.RootRunID != nil {
			root = *parent.RootRunID
		}
		r.RootRunID = &root
		if req.ParentStep != "" {
			r.ParentStepID = &req.ParentStep
		}
	case req.StartedBy.Type != "":
		r.SetInitiator(req.StartedBy)
	case who.KeyID != "":
		r.SetInitiator(Initiator{Type: ByKey, ID: who.KeyID})
	case who.UserID != "":
		r.SetInitiator(Initiator{Type: ByMember, ID: who.UserID})
	default:
		r.SetInitiator(Initiator{Type: ByPlatform})
	}
}
