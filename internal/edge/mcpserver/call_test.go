package mcpserver

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/edge/runstream"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/event/eventtest"
)

// oneRun is a runstream.Runs with one run, which is not created or cancelled.
type oneRun struct {
	runstream.Runs
	run *run.Run
}

func (o oneRun) Get(context.Context, string, string) (*run.Run, error) { return o.run, nil }

// A call whose run waits for its model, or for a limit of its provider, is answered
// after ten minutes like those of other routes; the run goes on (rule D22-sync).
func TestCallOfARunThatWaitsForItsModel(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]*run.Run{
		"model": {RunID: "r"},
		"limit": {RunID: "r", WaitingFor: run.WaitsForLimit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				log := &eventtest.MemoryLog{}
				if name == "model" {
					retrying := event.Entry{Name: "step.retrying", At: time.Now(), Data: jsontext.Value(`{"after_ms":900000}`)}
					if err := log.Append("t", "r", event.Segment{First: 1, Entries: []event.Entry{retrying}})(nil); err != nil {
						t.Fatal(err)
					}
				}
				runner := &runstream.Runner{Runs: oneRun{run: waits}, Log: log, Hub: event.NewHub()}
				began := time.Now()
				c := toolCall{run: runner.Replay("t", waits)}
				got, err := c.wait(t.Context(), func(int) {})
				if err != nil || !got.IsError || got.Meta["status"] != "running" || got.Meta["run_id"] != "r" {
					t.Fatalf("%+v, %v", got, err)
				}
				if took := time.Since(began); took < 10*time.Minute || took > 11*time.Minute || !strings.Contains(got.Content[0].Text, "waits for its model") {
					t.Errorf("%+v after %v", got, took)
				}
			})
		})
	}
}
