package openaiclient

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agentd/internal/kernel/model"

	"agentd/internal/wire/modelcall"
)

// An endpoint that says a little now and then would hold a run for as long as
// it likes, if only its silences were bounded.
func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-r.Context().Done():
				return
			case <-tick.C:
			}
			io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
			http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(server.Close)
	transport := modelcall.NewTransport()
	t.Cleanup(transport.CloseIdleConnections)
	c := New(Config{Operator: transport, AnswerTimeout: 200 * time.Millisecond})
	pieces := 0
	_, err := c.Generate(t.Context(), model.Request{Target: model.Target{BaseURL: server.URL, Model: "m"}}, func(model.Delta) { pieces++ })
	checkCode(t, err, "model_error")
	if err == nil || !strings.Contains(err.Error(), "did not finish its answer") || calls != 1 || pieces == 0 {
		t.Errorf("%v after %d calls and %d pieces", err, calls, pieces)
	}
}
