package session

import (
	"reflect"
	"time"

	"agentd/internal/base/route"
	"agentd/internal/execution/run"
)

// Types of the published events of a session that are about the session itself;
// sessionData writes them.
type (
	aboutSession struct {
		SessionID string    `json:"session_id" format:"uuid" doc:"The session."`
		Timestamp time.Time `json:"timestamp" doc:"When it happened."`
	}
	connectedEvent struct {
		Status       Status `json:"status,omitzero" doc:"Status of the session."`
		ActiveBranch string `json:"active_branch,omitzero" doc:"Branch that new messages go to."`
	}
	runAddedEvent struct {
		RunID    string `json:"run_id" format:"uuid" doc:"The run."`
		BranchID string `json:"branch_id" doc:"Its branch."`
		Turn     int64  `json:"turn,omitzero" doc:"Number of the turn in its branch."`
	}
	gapEvent struct {
		Dropped int `json:"dropped" doc:"Always 0: the id to resume after was unknown and the stream starts over."`
	}
	errorEvent struct {
		Code   string `json:"code" doc:"Stable code of the error."`
		Detail string `json:"detail" doc:"What to do, for a person."`
	}
	closedEvent struct {
		Status Status `json:"status,omitzero" doc:"Status of the session."`
	}
)

var events = route.Events{
	Name: "SessionEvent", Tag: "event", Common: reflect.TypeFor[aboutSession](), Also: &run.Events,
	Of: []route.Event{
		{Name: "session.connected", Data: reflect.TypeFor[connectedEvent](), Doc: "The stream is open."},
		{Name: "run_added", Data: reflect.TypeFor[runAddedEvent](), Doc: "A run of the session begins."},
		{Name: "gap", Data: reflect.TypeFor[gapEvent](), Doc: "The client resumed after an unknown id; the stream starts over."},
		{Name: "error", Data: reflect.TypeFor[errorEvent](), Doc: "The stream cannot continue; reconnect with the last id."},
		{Name: "session_closed", Data: reflect.TypeFor[closedEvent](), Doc: "The session has ended, and so does the stream."},
	},
}

// Published returns the messages of a session's stream.
func Published() *route.Events { return &events }
