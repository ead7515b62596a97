package openai

import (
	"net/http"
	"reflect"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
)

// Routes returns the routes of chat completions and models.
func (c *Chat) Routes() []httpapi.Raw {
	rows := []httpapi.Raw{
		{
			Row: route.Row{
				Method: "POST", Path: "/v1/chat/completions", ID: "createChatCompletion", Tag: "OpenAI-Compat",
				Scopes: []authz.Scope{"runs:create"}, Role: authz.Developer, Repeats: true, Errors: []int{404, 409, 422, 503},
				Summary: "Create a chat completion",
				Doc: "Starts a run of the agent or the team named by model; the header X-Run-Id has its id. " +
					"With stream true the answer is an event stream of chunks that ends with [DONE].",
				BodyOf:   reflect.TypeFor[ChatRequest](),
				AnswerOf: reflect.TypeFor[Completion](),
			},
			MayStream: true, ReplayByRef: true, Serve: c.Completions,
		},
		{
			Row: route.Row{
				Method: "GET", Path: "/v1/models", ID: "listCompatModels", Tag: "OpenAI-Compat",
				Summary: "List agents and teams as models", AnswerOf: reflect.TypeFor[ModelList](),
			},
			Serve: c.List,
		},
		{
			Row: route.Row{
				Method: "GET", Path: "/v1/models/{model}", ID: "getCompatModel", Tag: "OpenAI-Compat",
				Summary: "Get an agent or a team as a model", AnswerOf: reflect.TypeFor[ModelEntry](), Errors: []int{404},
			},
			Serve: c.Model,
		},
	}
	rows = openAIRoutes(rows)
	// The names agent/<id> and team/<id> contain a slash; the operation is the same.
	agents, teams := rows[2], rows[2]
	agents.Path, agents.ID = "/v1/models/agent/{model}", ""
	teams.Path, teams.ID = "/v1/models/team/{model}", ""
	teams.Serve = httpapi.InOwnTenant(c.Team)
	return append(rows, agents, teams)
}

// openAIRoutes makes rows render errors in OpenAI's envelope and accept only the
// key's own tenant.
func openAIRoutes(rows []httpapi.Raw) []httpapi.Raw {
	for i := range rows {
		rows[i].FailOf, rows[i].Fail = reflect.TypeFor[Envelope](), Fail
		rows[i].Errors = append(rows[i].Errors, http.StatusBadRequest)
		rows[i].Serve = httpapi.InOwnTenant(rows[i].Serve)
	}
	return rows
}

// typedRoutes makes routes render errors in OpenAI's envelope.
func typedRoutes(routes ...route.Route) []httpapi.Raw {
	rows := make([]httpapi.Raw, len(routes))
	for i := range routes {
		r := &routes[i]
		r.Errors = append(r.Errors, http.StatusBadRequest)
		rows[i] = httpapi.Raw{Row: r.Row, Typed: r, FailOf: reflect.TypeFor[Envelope](), Fail: Fail}
	}
	return rows
}
