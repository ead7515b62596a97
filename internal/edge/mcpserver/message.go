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
	codeRefused        = -32001 // the caller lacks the key, scope or role
)

// request is a JSON-RPC message from a client: a request; without an id, a
// notification; without a method, a response.
type request struct {
	_ struct{} `json:"-" name:"McpRequest"`

	JSONRPC string         `json:"jsonrpc" required:"true" enum:"2.0" doc:"Version of JSON-RPC."`
	ID      jsontext.Value `json:"id,omitzero" doc:"A string or a number. Without it the message is a notification and gets no response."`
	Method  string         `json:"method,omitzero" doc:"Name of the method, such as tools/call. Without it the message is a response."`
	Params  jsontext.Value `json:"params,omitzero" doc:"Parameters of the method."`
}

// response is the response to a request: a result or an error.
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

// errorData is the part of a problem document that JSON-RPC has no member for.
type errorData struct {
	_ struct{} `json:"-" name:"McpErrorData"`

	Code          string `json:"code" required:"true" doc:"As in problem documents."`
	CorrelationID string `json:"correlation_id" required:"true"`
}

func (e *rpcError) Error() string { return e.Message }

// notification is a message to the client that is not a response.
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

// decodeRequest reads a message. Errors: fault.Malformed for invalid JSON or an
// invalid id; fault.Invalid for JSON that is not a message.
func decodeRequest(body []byte) (*request, error) {
	req, err := schema.Decode[request](body)
	if err != nil {
		return nil, err
	}
	switch req.ID.Kind() {
	case 0, '"', '0':
	default:
		return nil, fault.New(fault.Malformed, "", "The id of a JSON-RPC message must be a string or a number.")
	}
	return req, nil
}

// rpcCodes maps HTTP statuses to codes; any other status is codeInternal.
var rpcCodes = map[int]int{
	http.StatusBadRequest: codeInvalidRequest, http.StatusUnauthorized: codeRefused, http.StatusForbidden: codeRefused,
	http.StatusNotFound: codeInvalidParams, http.StatusLengthRequired: codeInvalidRequest, http.StatusRequestTimeout: codeInvalidRequest,
	http.StatusRequestEntityTooLarge: codeInvalidRequest, http.StatusUnsupportedMediaType: codeInvalidRequest,
	http.StatusUnprocessableEntity: codeInvalidRequest,
}

// failAsRPC renders an error that precedes the reading of a message as a JSON-RPC
// error.
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
