package mcpserver

import (
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, kind := range map[string]fault.Kind{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`:               0,
		`{"jsonrpc":"2.0","id":"a","method":"ping","params":{}}`: 0,
		`{"jsonrpc":"2.0","method":"notifications/x"}`:           0,
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                   0,
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`:              fault.Malformed,
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`:            fault.Malformed,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`:        fault.Malformed,
		`{"jsonrpc":"2.0"`:                    fault.Malformed,
		`{"id":1,"method":"ping"}`:            fault.Invalid,
		`{"jsonrpc":"2.0","id":1,"method":7}`: fault.Invalid,
		`[]`:                                  fault.Invalid,
	} {
		_, err := decodeRequest([]byte(text))
		if (err == nil) != (kind == 0) || err != nil && !fault.Is(err, kind) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Whatever a client sends, it is a message or a refusal; and what is answered
// carries its id as it was.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1e400,"method":"tools/call","params":{"name":"x","arguments":{"message":"y"}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"\ud83d\ude00","method":""}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := decodeRequest(body)
		if err != nil {
			if e := fault.From(err); e.Kind != fault.Malformed && e.Kind != fault.Invalid {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		var in callParams
		_ = json.Unmarshal(orEmpty(req.Params), &in) // it may be anything
		if len(req.ID) > 0 {
			res, err := resultResponse(req.ID, struct{}{})
			if err != nil {
				t.Fatalf("%q: %v", body, err)
			}
			if _, err := json.Marshal(res); err != nil {
				t.Errorf("%q: %v", body, err)
			}
		}
	})
}
