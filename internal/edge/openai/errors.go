package openai

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/edge/httpapi"
)

// Envelope is an error in OpenAI's shape.
type Envelope struct {
	Error ErrorBody `json:"error" required:"true"`
}

// ErrorBody is the content of an envelope.
type ErrorBody struct {
	Message string  `json:"message" required:"true"`
	Type    string  `json:"type" required:"true"`
	Code    string  `json:"code" required:"true" doc:"As in problem documents."`
	Param   *string `json:"param" doc:"The first invalid field, if any."`
}

func newEnvelope(e *fault.Error) Envelope {
	body := ErrorBody{Message: e.Detail, Type: httpapi.ErrorType(e.Kind), Code: e.Code}
	if len(e.Fields) > 0 {
		body.Param = &e.Fields[0].Field
	}
	if len(e.Fields) > 1 { // the envelope has no list of fields
		body.Message = joinFields(e.Fields)
	}
	return Envelope{body}
}

// maxListed is how many invalid fields one sentence lists.
const maxListed = 5

func joinFields(fields []fault.Field) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of the request's fields cannot be accepted. ", len(fields))
	for i, f := range fields[:min(len(fields), maxListed)] {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %s", f.Field, f.Message)
	}
	if len(fields) > maxListed {
		b.WriteString("; …")
	}
	return b.String()
}

func encodeEnvelope(e *fault.Error) ([]byte, error) {
	return json.Marshal(newEnvelope(e), jsontext.AllowInvalidUTF8(true))
}

// Fail renders an error in OpenAI's envelope.
func Fail(w http.ResponseWriter, _ *http.Request, status int, e *fault.Error) {
	httpapi.RefusalHeaders(w, status, e)
	_ = httpapi.JSON(w, status, newEnvelope(e)) // our own type always encodes
}
