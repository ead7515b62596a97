package openai

import (
	"net/http"
	"reflect"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
)

// Routes of the chat-compatible shape.
func (c *Chat) Routes() []httpapi.Raw {
	rows := []httpapi.Raw{
		{
			Row: route.Row{
				Method: "POST", Path: "/v1/chat/completions", ID: "createChatCompletion", Tag: "OpenAI-Compat",
				Scopes: []authz.Scope{"runs:create"}, Role: authz.Developer, Repeats: true, Errors: []int{404, 409, 422, 503},
				Summary:  "Ask an agent in the chat-completions shape",
				Doc:      "The request becomes a run, which the header X-Run-Id names. With stream true the answer is an event stream of chunks that ends with [DONE].",
				BodyOf:   reflect.TypeFor[ChatRequest](),
				AnswerOf: reflect.TypeFor[Completion](),
			},
			ReplayByRef: true, Serve: c.Completions,
		},
		{
			Row: route.Row{
				Method: "GET", Path: "/v1/models", ID: "listCompatModels", Tag: "OpenAI-Compat",
				Summary: "List agents as models", AnswerOf: reflect.TypeFor[ModelList](),
			},
			Serve: c.List,
		},
		{
			Row: route.Row{
				Method: "GET", Path: "/v1/models/{model}", ID: "getCompatModel", Tag: "OpenAI-Compat",
				Summary: "Read one agent as a model", AnswerOf: reflect.TypeFor[ModelEntry](), Errors: []int{404},
			},
			Serve: c.Model,
		},
	}
	rows = openAIRoutes(rows)
	// An agent/<id> has a slash; it is the same operation.
	slash := rows[2]
	slash.Path, slash.ID = "/v1/models/agent/{model}", ""
	return append(rows, slash)
}

// openAIRoutes has rows refuse in the chat envelope, and know no tenant but the key's.
func openAIRoutes(rows []httpapi.Raw) []httpapi.Raw {
	for i := range rows {
		rows[i].FailOf, rows[i].Fail = reflect.TypeFor[Envelope](), Fail
		rows[i].Errors = append(rows[i].Errors, http.StatusBadRequest)
		rows[i].Serve = httpapi.InOwnTenant(rows[i].Serve)
	}
	return rows
}
