package contracttest

import "agentd/internal/app/apptest"

// aboutPeople are recipes of what is kept of people, and of what they say about runs.
var aboutPeople = map[string]recipe{
	"dataSubjectErasure": {with: erasesMember}, "adminPutOAuthProvider": {with: loginProvider},
	"dataSubjectAccess": {ids: func(c *Company, call *Call) { call.Query.Set("subject_id", c.IDs["userId"][0]) }},
	"getImmutableAudit": {ids: func(c *Company, call *Call) { call.Query.Set("tenant_id", c.IDs["subordinate"][0]) }},
	"getSessionRunFeedback": {ids: func(c *Company, call *Call) {
		call.Path["sessionId"] = c.CreateSession(c.IDs["agentId"][0], nil)
		call.Path["runId"] = c.SendMessage(call.Path["sessionId"], c.Mark)
		call.Query.Set("message_id", c.Mark)
	}},
	"putSessionRunFeedback": {
		body: apptest.Object{"message_id": "reply", "reaction": "up"},
		ids: func(c *Company, call *Call) {
			call.Path["sessionId"] = c.CreateSession(c.IDs["agentId"][0], nil)
			call.Path["runId"] = c.SendMessage(call.Path["sessionId"], c.Mark)
		},
	},
}
