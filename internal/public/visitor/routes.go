package visitor

import (
	"reflect"
	"slices"
	"time"

	"agentd/internal/base/route"
	"agentd/internal/kernel/resource"
)

const (
	tag  = "Public"
	path = "/api/v1/public"
	// refused is the action of what strangers are refused.
	refused = "visitor.refused"
)

// row returns the row of an operation for visitors. Beside the operator's limits each has
// a coarse one of its own, which holds before anything is read.
func row(method, at, id, summary string, errors ...int) route.Row {
	return route.Row{
		Method: method, Path: path + at, ID: id, Tag: tag, Summary: summary, Public: true, CrossOrigin: true, Refused: refused,
		Errors: errors, Limits: []route.Limit{{N: 600, Per: time.Minute}},
	}
}

// Routes returns the operations for visitors.
func (s *Service) Routes() []route.Route {
	const session = "/sessions/{sessionId}"
	card := row("GET", "/agents/{agentId}", "getPublicAgentCard", "Get the card of a public agent", 403, 404, 501)
	create := row("POST", "/sessions", "createPublicSession", "Begin a session with a public agent", 403, 404, 429, 501, 503)
	create.Status, create.Also = 201, []int{200}
	create.AnswerOf = reflect.TypeFor[created]()
	create.Example = `{"agent_id":"0197b5a0-3c1e-7d2a-9b41-5f0c8e6d7a21"}`
	create.Doc = "No key is needed. The answer has the token of the session, which all of its other operations take; " +
		"pages of this service also get it as a cookie. A repetition with the token within 3 seconds returns the same session (200), " +
		"unless fresh is true."
	get := row("GET", session, "getPublicSession", "Get a visitor's session", 401, 403, 404, 410, 501)
	get.Doc = "Can be read for a day, also when it takes no more messages."
	send := row("POST", session+"/messages", "sendPublicMessage", "Send a visitor's message", 401, 403, 404, 409, 410, 429, 501)
	send.Status, send.Example = 202, `{"content":"When do you open?"}`
	send.Doc = "One message is answered at a time. The answer comes on the event stream."
	stream := row("GET", session+"/events", "streamPublicSessionEvents", "Stream the events of a visitor's session",
		401, 403, 404, 410, 429, 501)
	stream.Events = &events
	stream.Doc = "Server-sent events of the session's answers, with ids of the form `<runId>:<seq>`. Past events come first; " +
		"Last-Event-ID resumes right after an event. Ends with `session_closed`."
	respond := row("POST", session+"/respond", "respondToPublicHitl", "Answer the agent's question", 401, 403, 404, 409, 410, 429, 501)
	respond.Example = `{"response":"The red one"}`
	cancel := row("POST", session+"/runs/{runId}/cancel", "cancelPublicRun", "Cancel an answer", 401, 403, 404, 409, 410, 501)
	upload := row("POST", session+"/upload", "uploadPublicImage", "Upload a visitor's image", 401, 403, 404, 410, 413, 415, 429, 501)
	upload.Uploads = []string{route.Form, route.Bytes}
	upload.Doc = "Send the bytes of an image (PNG, JPEG, GIF or WebP) up to 8 MiB, as they are or as the field file of a form."
	report := row("POST", session+"/reports", "reportPublicSession", "Report what was said", 401, 403, 404, 410, 429, 501)
	report.Status, report.Example = 202, `{"target_type":"session","target_id":"0197b5a0-3c1e-7d2a-9b41-5f0c8e6d7a21","reason":"spam"}`
	content := row("GET", "/files/{fileId}/content", "getPublicFileContent", "Get a public image", 403, 404, 501)
	content.Doc = "Images that visitors sent, and those that public profiles show: " +
		"of which the logo or the branding of a public company has the id."
	content.CrossOrigin = false
	return slices.Concat(s.settingRoutes(), resource.Routes(s.Reports), []route.Route{
		route.Action(card, s.card), route.Action(create, s.create), route.Action(get, s.get), route.Action(send, s.send),
		route.Stream(stream, s.events), route.Action(respond, s.respond), route.Action(cancel, s.cancel), route.Action(upload, s.upload),
		route.Action(report, s.report), route.Action(content, s.content),
	})
}
