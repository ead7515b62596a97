package a2aserver

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/edge/httpapi"
)

// Codes of JSON-RPC and of the protocol.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeNoTask         = -32001
	codeNotCancelable  = -32002
	codeUnsupported    = -32004

	codeUnauthenticated = -31401 // as the official SDKs have them
	codeUnauthorized    = -31403
)

// request is a JSON-RPC request.
type request struct {
	_ struct{} `json:"-" name:"A2ARequest"`

	JSONRPC string         `json:"jsonrpc" required:"true" enum:"2.0" doc:"Version of JSON-RPC."`
	ID      jsontext.Value `json:"id,omitzero" doc:"A string or a number; the response has the same."`
	Method  string         `json:"method" required:"true" doc:"Name of the method, such as SendMessage or message/send."`
	Params  jsontext.Value `json:"params,omitzero" doc:"Parameters of the method."`
}

// response is the response to a request: a result or an error.
type response struct {
	_ struct{} `json:"-" name:"A2AResponse"`

	JSONRPC string         `json:"jsonrpc" required:"true" enum:"2.0"`
	ID      jsontext.Value `json:"id" required:"true"`
	Result  jsontext.Value `json:"result,omitzero"`
	Error   *rpcError      `json:"error,omitzero"`
}

type rpcError struct {
	_ struct{} `json:"-" name:"A2AError"`

	Code    int         `json:"code" required:"true"`
	Message string      `json:"message" required:"true"`
	Data    []errorInfo `json:"data,omitzero"`
}

// errorInfo is the part of a problem document that JSON-RPC has no member for, in the
// form of the protocol's error details.
type errorInfo struct {
	_ struct{} `json:"-" name:"A2AErrorInfo"`

	Type     string            `json:"@type" required:"true"`
	Reason   string            `json:"reason" required:"true" doc:"The code of problem documents."`
	Domain   string            `json:"domain" required:"true"`
	Metadata map[string]string `json:"metadata" required:"true"`
}

func (e *rpcError) Error() string { return e.Message }

var noID = jsontext.Value("null")

// decodeRequest reads a message. Errors: fault.Malformed for invalid JSON or an invalid
// id; fault.Invalid for JSON that is no request.
func decodeRequest(body []byte) (*request, error) {
	req, err := schema.Decode[request](body)
	if err != nil {
		return nil, err
	}
	switch req.ID.Kind() {
	case 0:
		req.ID = noID
	case '"', '0', 'n':
	default:
		return nil, fault.New(fault.Malformed, "", "The id of a JSON-RPC message must be a string or a number.")
	}
	return req, nil
}

// replyOf returns the response with a result, or with an error that is an *rpcError.
func replyOf(id jsontext.Value, result any, err error) *response {
	res := &response{JSONRPC: "2.0", ID: id}
	if e, ok := err.(*rpcError); ok { //nolint:errorlint // it is ours and never wrapped
		res.Error = e
		return res
	}
	if text, failed := json.Marshal(result, jsontext.AllowInvalidUTF8(true)); failed == nil {
		res.Result = text
	} else {
		res.Error = &rpcError{Code: codeInternal, Message: "The result cannot be written."}
	}
	return res
}

// writeReply answers with a result, or with an error of the protocol; it returns any
// other error.
func writeReply(w http.ResponseWriter, id jsontext.Value, result any, err error) error {
	if err != nil {
		rpc := rpcOf(err)
		if rpc == nil {
			return err
		}
		err = rpc
	}
	return httpapi.JSON(w, http.StatusOK, replyOf(id, result, err))
}

// rpcOf returns a refusal as an error of the protocol; nil where it concerns the request
// as a whole: the caller, a limit, or a failure of the server.
func rpcOf(err error) *rpcError {
	if e, ok := err.(*rpcError); ok { //nolint:errorlint // it is ours and never wrapped
		return e
	}
	f := fault.From(err)
	var code int
	switch f.Kind {
	case fault.NotFound:
		code = codeNoTask
	case fault.Conflict:
		code = codeUnsupported
	case fault.Invalid, fault.Malformed:
		code = codeInvalidParams
	default:
		return nil
	}
	return &rpcError{Code: code, Message: f.Detail, Data: infoOf(f, nil)}
}

func infoOf(f *fault.Error, metadata map[string]string) []errorInfo {
	if metadata == nil {
		metadata = map[string]string{}
	}
	return []errorInfo{{Type: "type.googleapis.com/google.rpc.ErrorInfo", Reason: f.Code, Domain: "agentd", Metadata: metadata}}
}

// rpcCodes maps HTTP statuses to codes; any other status is codeInternal.
var rpcCodes = map[int]int{
	http.StatusBadRequest: codeInvalidRequest, http.StatusUnauthorized: codeUnauthenticated, http.StatusForbidden: codeUnauthorized,
	http.StatusNotFound: codeInvalidParams, http.StatusLengthRequired: codeInvalidRequest, http.StatusRequestTimeout: codeInvalidRequest,
	http.StatusRequestEntityTooLarge: codeInvalidRequest, http.StatusUnsupportedMediaType: codeInvalidRequest,
	http.StatusUnprocessableEntity: codeInvalidRequest,
}

// failAsRPC renders a refusal of the request as a whole as a JSON-RPC error.
func failAsRPC(w http.ResponseWriter, r *http.Request, status int, e *fault.Error) {
	code := rpcCodes[status]
	if code == 0 {
		code = codeInternal
	}
	if status == http.StatusBadRequest && strings.Contains(e.Detail, "JSON") {
		code = codeParse
	}
	httpapi.RefusalHeaders(w, status, e)
	info := infoOf(e, map[string]string{"correlation_id": httpapi.RequestID(r.Context())})
	_ = httpapi.JSON(w, status, replyOf(noID, nil, &rpcError{Code: code, Message: e.Detail, Data: info})) // our own type always encodes
}
