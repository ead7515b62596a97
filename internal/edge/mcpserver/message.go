package mcpserver

import (
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/edge/httpapi"
)

// Codes of JSON-RPC and of MCP.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeRefused        = -32001 // whoever calls may not
)

// request is a JSON-RPC message that a client sends: a request, or without an
// id a notification, or without a method a response.
type request struct {
	_ struct{} `json:"-" name:"McpRequest"`

	JSONRPC string         `json:"jsonrpc" required:"true" enum:"2.0"`
	ID      jsontext.Value `json:"id,omitzero" doc:"A string or a number. Left out: a notification, which is not answered."`
	Method  string         `json:"method,omitzero"`
	Params  jsontext.Value `json:"params,omitzero"`
}

// response is the answer to a request: a result, or an error.
type response struct {
	_ struct{} `json:"-" name:"McpResponse"`

	JSONRPC string         `json:"jsonrpc" required:"true" enum:"2.0"`
	ID      jsontext.Value `json:"id" required:"true"`
	Result  jsontext.Value `json:"result,omitzero"`
	Error   *rpcError      `json:"error,omitzero"`
}

type rpcError struct {
	_ struct{} `json:"-" name:"McpError"`

	Code    int        `json:"code" required:"true"`
	Message string     `json:"message" required:"true"`
	Data    *errorData `json:"data,omitzero"`
}

// errorData says of a refusal what a problem document would.
type errorData struct {
	_ struct{} `json:"-" name:"McpErrorData"`

	Code          string `json:"code" required:"true" doc:"As in problem documents."`
	CorrelationID string `json:"correlation_id" required:"true"`
}

func (e *rpcError) Error() string { return e.Message }

// notification is a message to the client that is no answer.
type notification struct {
	JSONRPC string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitzero"`
}

const version2 = "2.0"

var noID = jsontext.Value("null")

func resultResponse(id jsontext.Value, result any) (*response, error) {
	text, err := json.Marshal(result)
	return &response{JSONRPC: version2, ID: id, Result: text}, err
}

func errorResponse(id jsontext.Value, e *rpcError) *response {
	return &response{JSONRPC: version2, ID: id, Error: e}
}

// decodeRequest reads a message. Errors: fault.Malformed for what is no JSON, or has
// no id; fault.Invalid for what is no message.
func decodeRequest(body []byte) (*request, error) {
	req, err := schema.Decode[request](body)
	if err != nil {
		return nil, err
	}
	switch req.ID.Kind() {
	case 0, '"', '0':
	default:
		return nil, fault.New(fault.Malformed, "", "The id of a JSON-RPC message is a string or a number.")
	}
	return req, nil
}

// rpcCodes maps statuses to codes. What is not here is a failure of ours.
var rpcCodes = map[int]int{
	http.StatusBadRequest: codeInvalidRequest, http.StatusUnauthorized: codeRefused, http.StatusForbidden: codeRefused,
	http.StatusNotFound: codeInvalidParams, http.StatusLengthRequired: codeInvalidRequest, http.StatusRequestTimeout: codeInvalidRequest,
	http.StatusRequestEntityTooLarge: codeInvalidRequest, http.StatusUnsupportedMediaType: codeInvalidRequest,
	http.StatusUnprocessableEntity: codeInvalidRequest,
}

// failAsRPC renders what is refused before a message is looked at as a JSON-RPC
// error (behaviours section 21).
func failAsRPC(w http.ResponseWriter, r *http.Request, status int, e *fault.Error) {
	code := rpcCodes[status]
	if code == 0 {
		code = codeInternal
	}
	httpapi.RefusalHeaders(w, status, e)
	_ = httpapi.JSON(w, status, errorResponse(noID, &rpcError{ // our own type always encodes
		Code: code, Message: e.Detail, Data: &errorData{Code: e.Code, CorrelationID: httpapi.RequestID(r.Context())},
	}))
}
