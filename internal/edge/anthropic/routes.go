package anthropic

import (
	"net/http"
	"reflect"

	"agentd/internal/agents/modelproxy"
	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
)

// problemStatuses are the statuses that may be rendered as problem documents.
var problemStatuses = []int{http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests}

// Routes returns the routes of the Messages API.
func (m *Messages) Routes() []httpapi.Raw {
	rows := []httpapi.Raw{
		{
			Row: route.Row{
				Method: "POST", Path: "/v1/messages", ID: "createMessage", Tag: "Anthropic-Compat",
				Scopes: []authz.Scope{"runs:create"}, And: []authz.Scope{"agents:read"}, Role: authz.Developer,
				Errors:  []int{404, 409, 422, 501, 502, 503, 504},
				Summary: "Create a message",
				Doc: "Calls a model, or starts a run of an agent that model names by its id or as agent/<id or name>; the header X-Run-Id then has " +
					"the run's id. With stream true the answer is an event stream that ends with message_stop.",
				BodyOf:   reflect.TypeFor[Request](),
				AnswerOf: reflect.TypeFor[Answer](),
			},
			In:        reflect.TypeFor[modelproxy.Attribution](),
			MayStream: true, Serve: m.Create,
		},
		{
			Row: route.Row{
				Method: "POST", Path: "/v1/messages/count_tokens", ID: "countMessageTokens", Tag: "Anthropic-Compat",
				Summary:  "Estimate the tokens of a message request",
				Doc:      "Does not call a model.",
				BodyOf:   reflect.TypeFor[CountRequest](),
				AnswerOf: reflect.TypeFor[Count](),
			},
			Serve: m.CountTokens,
		},
	}
	for i := range rows {
		rows[i].FailOf, rows[i].Fail, rows[i].Mixed = reflect.TypeFor[Envelope](), Fail, problemStatuses
		rows[i].APIKeyHeader = true
		rows[i].Serve = httpapi.InOwnTenant(rows[i].Serve)
	}
	return rows
}
