package openai

import (
	"net/http"
	"reflect"

	"agentd/internal/authz"
	"agentd/internal/fault"
	"agentd/internal/httpapi"
	"agentd/internal/route"
)

// Routes of the chat-compatible shape.
func (c *Chat) Routes() []httpapi.Raw {
	rows := []httpapi.Raw{
		{
			Row: route.Row{
				Method: "POST", Path: "/v1/chat/completions", ID: "createChatCompletion", Tag: "OpenAI-Compat",
				Scopes: []authz.Scope{"runs:create"}, Role: authz.Developer, Errors: []int{404, 409, 422, 503},
				Summary:  "Ask an agent in the chat-completions shape",
				Doc:      "The request becomes a run. With stream true the answer is an event stream of chunks that ends with [DONE].",
				BodyOf:   reflect.TypeFor[ChatRequest](),
				AnswerOf: reflect.TypeFor[Completion](),
			},
			Serve: c.Completions,
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
	for i := range rows {
		rows[i].FailOf, rows[i].Fail = reflect.TypeFor[Envelope](), Fail
		rows[i].Errors = append(rows[i].Errors, http.StatusBadRequest)
		rows[i].Serve = inOwnTenant(rows[i].Serve)
	}
	// An agent/<id> has a slash; it is the same operation.
	slash := rows[2]
	slash.Path, slash.ID = "/v1/models/agent/{model}", ""
	return append(rows, slash)
}

// inOwnTenant refuses a call that names another tenant than the key's: these
// routes know no other (interface.md section 4).
func inOwnTenant(serve func(http.ResponseWriter, *http.Request, authz.Caller) error) func(http.ResponseWriter, *http.Request, authz.Caller) error {
	return func(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
		if t := r.Header.Get("X-Active-Tenant"); t != "" && t != who.TenantID {
			return fault.New(fault.Malformed, "", "X-Active-Tenant names another company; these routes run in the key's own. Leave the header out.")
		}
		return serve(w, r, who)
	}
}

// Envelope is how the chat routes refuse.
type Envelope struct {
	Error ErrorBody `json:"error" required:"true"`
}

// errorTypes maps kinds to the types that OpenAI's clients know.
var errorTypes = map[fault.Kind]string{
	fault.Unauthenticated: "authentication_error",
	fault.Forbidden:       "permission_error",
	fault.Limited:         "rate_limit_error",
	fault.Internal:        "api_error",
	fault.Unavailable:     "api_error",
	fault.Unsupported:     "api_error",
}

// Fail renders a refusal in the chat envelope.
func Fail(w http.ResponseWriter, _ *http.Request, status int, e *fault.Error) {
	httpapi.RefusalHeaders(w, status, e)
	body := Envelope{ErrorBody{Message: e.Detail, Type: errorTypes[e.Kind], Code: e.Code}}
	if body.Error.Type == "" {
		body.Error.Type = "invalid_request_error"
	}
	if len(e.Fields) > 0 {
		body.Error.Param = &e.Fields[0].Field
	}
	_ = httpapi.JSON(w, status, body) // our own type always encodes
}
