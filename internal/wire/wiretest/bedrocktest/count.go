package bedrocktest

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// counts matches the path of a count, which inference profiles do not have.
var counts = regexp.MustCompile(`^/model/anthropic\.[A-Za-z0-9._~%-]+/count-tokens$`)

// CountOf implements wiretest.Counting: what the API does not count is refused.
func (Converse) CountOf(r *http.Request, body []byte) (of []byte, wrong string) {
	if r.Method != "POST" || !strings.HasSuffix(r.URL.Path, "/count-tokens") {
		return nil, ""
	}
	if !counts.MatchString(r.URL.EscapedPath()) {
		return nil, "The provided model doesn't support counting tokens."
	}
	if wrong := checkSignature(r, body); wrong != "" {
		return nil, wrong
	}
	var c struct {
		Input struct {
			Converse jsontext.Value `json:"converse"`
		} `json:"input"`
	}
	var members map[string]jsontext.Value
	var s sent
	if err := json.Unmarshal(body, &c, json.RejectUnknownMembers(true)); err != nil {
		return nil, err.Error()
	}
	if err := json.Unmarshal(c.Input.Converse, &members); err != nil {
		return nil, err.Error()
	}
	if members["inferenceConfig"] != nil || members["outputConfig"] != nil {
		return nil, "inferenceConfig and outputConfig are not permitted"
	}
	if err := json.Unmarshal(c.Input.Converse, &s, json.RejectUnknownMembers(true)); err != nil {
		return nil, err.Error()
	}
	s.Inference.MaxTokens = 1 << 20 // thinking has a budget within it
	return c.Input.Converse, s.check()
}

// Counted implements wiretest.Counting.
func (Converse) Counted(tokens int) []byte { return fmt.Appendf(nil, `{"inputTokens":%d}`, tokens) }
