package anthropic

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
)

func decodeNewer(t *testing.T, more string) *Request {
	t.Helper()
	req, err := schema.Decode[Request]([]byte(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"Hi"}]` + more + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// A client that expects the server to store the conversation gets the code that
// makes it send all messages.
func TestThreadsAreNotKept(t *testing.T) {
	t.Parallel()
	for more, refused := range map[string]bool{
		``:                            false,
		`,"thread":null`:              false,
		`,"thread":7`:                 false,
		`,"thread":{"type":7}`:        false,
		`,"thread":{"type":"create"}`: false,
		`,"thread":{"type":"continue","previous_message_id":"msg_1"}`: true,
	} {
		err := decodeNewer(t, more).checkThread()
		if refused != fault.Is(err, fault.NotFound) || !refused && err != nil {
			t.Errorf("%s: %v", more, err)
		}
		if !refused {
			continue
		}
		var e Envelope
		if err := json.Unmarshal(appendEnvelope(nil, fault.From(err), "r"), &e); err != nil || e.Error.Type != "invalid_request_error" ||
			e.Error.Details == nil || e.Error.Details.Code != "thread_not_found" {
			t.Errorf("%+v: %v", e, err)
		}
	}
}

// The JSON that an answer is to be reaches the model, by either name.
func TestOutputFormats(t *testing.T) {
	t.Parallel()
	const format = `{"type":"json_schema","schema":{"type":"object"}}`
	const want = `{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object"}}}`
	for more, want := range map[string]string{
		``: "",
		`,"output_config":{"format":` + format + `}`:                     want,
		`,"output_format":` + format:                                     want,
		`,"output_config":{"effort":"low"},"output_format":` + format:    want,
		`,"output_config":null,"output_format":null`:                     "",
		`,"output_config":{"format":{"type":"json_schema","schema":[]}}`: "",
		`,"output_config":{"format":{"type":"xml","schema":{}}}`:         "",
		`,"output_config":{"format":7}`:                                  "",
		`,"tools":[{"name":"f"}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true},"output_format":` + format: want,
	} {
		ask, err := decodeNewer(t, more).ToRequest()
		if got := string(ask.Extra["response_format"]); err != nil || got != want {
			t.Errorf("%s: %s, %v", more, got, err)
		}
		if parallel := ask.Extra["parallel_tool_calls"] != nil; parallel != strings.Contains(more, "disable_parallel") {
			t.Errorf("%s: %v", more, ask.Extra)
		}
	}
}
