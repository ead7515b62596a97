package engine_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// A call that failed is logged by who observes calls, so the engine adds nothing. A
// call that could not be made is logged here, once.
func TestFailedCallsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec model.Spec
		want int
	}{
		"refused":  {want: 0},
		"not_made": {spec: model.Spec{Provider: "custom"}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHarness(t, sqldbtest.Open(t, sqldbtest.SQLite), modeltest.Default(modeltest.Answer{Status: 400}))
			logs := &buffer{}
			r.logs, r.agents.spec.Model = logs, c.spec
			n := r.start("node", 1, nil)
			if end := n.end(n.begin(run.Request{}).RunID); end.Status != run.Failed {
				t.Fatalf("the run is %s", end.Status)
			}
			if got := strings.Count(logs.String(), "model"); got < c.want || c.want == 0 && got > 0 || strings.Count(logs.String(), "could not be called") != c.want {
				t.Errorf("logged:\n%s", logs)
			}
		})
	}
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
