package review

import (
	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

type runIn struct {
	RunID string `path:"runId"`
}

// Routes returns the operations.
func (s *Service) Routes() []route.Route {
	row := func(method, path, id, summary, doc string, refusals ...int) route.Row {
		r := route.Row{
			Method: method, Path: "/api/v1" + path, ID: id, Tag: "Runs", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{"runs:read"}, Role: authz.Viewer, Errors: append(refusals, 404),
		}
		return r
	}
	export := row("GET", "/runs/export", "exportRuns", "Export runs",
		"Lines of JSON, oldest first, of runs that are at least ten seconds old. Each line is a run with its `cursor`: send that of the last "+
			"line as `after` to continue, also after an answer that was cut off.", 422)
	export.Reads, export.Errors = "run.exported", []int{422}
	events := row("GET", "/runs/{runId}/events/export", "exportRunEvents", "Export the events of a run",
		"Lines of JSON: the data of each event of the stream so far, text chunks included, exactly as they were streamed.", 422)
	events.Reads = "run.events_exported"
	checkpoint := row("POST", "/runs/{runId}/checkpoint", "createRunCheckpoint", "Mark a checkpoint in a run",
		"Marks the last step that was committed. The run goes on. A run that has ended takes no checkpoints.", 409)
	checkpoint.Status, checkpoint.Scopes, checkpoint.Role = 201, []authz.Scope{"runs:create"}, authz.Developer
	replay := row("POST", "/runs/{runId}/replay", "replayRun", "Replay a run",
		"With mode verify the events of the run are played again and compared with its steps. "+
			"With mode execute a new run is started on the same input: "+
			"the model is called again, and its tools answer what they answered then, without being called. "+
			"Compare the two with `GET /runs/{runId}/diff`. Starting one needs the scope runs:create.", 403, 409)
	replay.Status, replay.Role, replay.Optional, replay.Example = 202, authz.Developer, true, `{"mode": "verify"}`
	session := row("GET", "/sessions/{sessionId}/audit-log", "getSessionAuditLog", "Read what was done to a session",
		"Oldest first. Entries are kept when the session is closed.", 422)
	session.Tag, session.Scopes = "Sessions", []authz.Scope{"sessions:read"}
	return append([]route.Route{
		route.Action(export, s.exportRuns),
		route.Action(row("GET", "/runs/{runId}/queue-position", "getRunQueuePosition", "Get a run's place in the queue",
			"How many runs of the company go first, and this one; 0 for a run that has been started, has ended, or waits for something else."),
			s.queuePosition),
		route.Action(events, s.exportEvents),
		route.Action(row("GET", "/runs/{runId}/audit-log", "getRunAuditLog", "Read what was done to a run",
			"Who approved, rejected or cancelled, oldest first.", 422), s.auditOfRun),
		route.Action(session, s.auditOfSession),
		route.Action(checkpoint, s.checkpoint),
		route.Action(row("GET", "/runs/{runId}/checkpoints", "listRunCheckpoints", "List the checkpoints of a run", ""), s.checkpoints),
		route.Action(row("GET", "/runs/{runId}/diff", "compareRuns", "Compare two runs",
			"Pairs the steps of two runs of the company, in order, and shows where they differ: "+
				"of a run and its fork, its replay, or another version.", 422),
			s.diff),
		route.Action(replay, s.replay),
	}, s.feedbackRoutes()...)
}
