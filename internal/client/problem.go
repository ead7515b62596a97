package client

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Problem is an error answer: a problem document (RFC 9457).
type Problem struct {
	Status        int    `json:"status"`
	Title         string `json:"title"`
	Detail        string `json:"detail"`
	Code          string `json:"code"`
	CorrelationID string `json:"correlation_id"`
	Errors        []struct {
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"errors"`

	RetryAfter time.Duration  `json:"-"`
	Raw        jsontext.Value `json:"-"` // the answer's body, if it is JSON
}

// Error returns the detail, every invalid field, the code, and the request id
// that the server's log has.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Detail)
	if len(p.Errors) > 1 {
		for _, e := range p.Errors {
			fmt.Fprintf(&b, "\n  %s: %s", e.Field, e.Message)
		}
		b.WriteString("\n ")
	}
	var marks []string
	if p.Code != "" {
		marks = append(marks, p.Code)
	}
	if p.CorrelationID != "" {
		marks = append(marks, "request "+p.CorrelationID)
	}
	if marks != nil {
		fmt.Fprintf(&b, " (%s)", strings.Join(marks, ", "))
	}
	return b.String()
}

// temporary reports whether the same request may succeed a little later.
func (p *Problem) temporary() bool {
	switch p.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// ProblemOf returns the refusal that an answer is, such as one to the handshake of a
// WebSocket. The caller closes the answer.
func ProblemOf(res *http.Response) error {
	p := readProblem(res)
	p.Status = res.StatusCode
	return p
}

// readProblem reads a refusal. One that is no problem document (a proxy's page,
// say) is described by its status.
func readProblem(res *http.Response) *Problem {
	var p Problem
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if json.Unmarshal(text, &p) != nil || p.Detail == "" {
		p = Problem{Detail: fmt.Sprintf("The server answered %d %s.", res.StatusCode, http.StatusText(res.StatusCode))}
	}
	p.Status = res.StatusCode
	if raw := jsontext.Value(text); raw.IsValid() {
		p.Raw = raw
	}
	if p.CorrelationID == "" {
		p.CorrelationID = res.Header.Get("X-Request-Id")
	}
	if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s > 0 {
		p.RetryAfter = time.Duration(s) * time.Second
	}
	return &p
}
