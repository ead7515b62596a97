package wiretest

import (
	"errors"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model"
)

// counts are of the request that would be sent, with nothing that the API does not count.
// Wires without such a call say so without asking the endpoint.
func (s *suite) counts(t *testing.T) {
	e := s.endpoint(t, say("So."))
	temperature := 0.5
	req := hello()
	req.Target, req.Tools, req.Temperature, req.Stop = s.p.Target(e.URL), []model.ToolSpec{weather}, &temperature, []string{"END"}
	req.Extra = map[string]jsontext.Value{
		"reasoning_effort": jsontext.Value(`"low"`), "response_format": jsontext.Value(`{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object"}}}`),
	}
	counter, ok := s.new().(model.Counter)
	if _, counts := s.p.(Counting); !counts {
		if !ok {
			return
		}
		if n, err := counter.CountTokens(t.Context(), req); !errors.Is(err, model.ErrCannotCount) || n != 0 {
			t.Errorf("a wire that does not count: %d, %v", n, err)
		}
		return
	}
	if !ok {
		t.Fatal("the client does not count")
	}
	if n, err := counter.CountTokens(t.Context(), req); err == nil || n != 0 || e.Counts() != 1 {
		t.Errorf("an endpoint that does not count: %d, %v, %d calls", n, err, e.Counts())
	}
	var asked Asked
	e.Tokens = func(a Asked) int {
		asked = a
		return 12345
	}
	n, err := counter.CountTokens(t.Context(), req)
	if err != nil || n != 12345 {
		t.Errorf("%d, %v, refused: %q", n, err, e.Wrong())
	}
	if diff := cmp.Diff([]string{"user: Hello"}, asked.Lines); diff != "" || asked.System == "" || len(asked.Tools) != 1 {
		t.Errorf("counted (-want +got):\n%s%+v", diff, asked)
	}
	e.Tokens = func(Asked) int { return -1 }
	if n, err := counter.CountTokens(t.Context(), req); err == nil || n != 0 {
		t.Errorf("an absurd count: %d, %v", n, err)
	}
}
