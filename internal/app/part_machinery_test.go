package app

import (
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/kernel/event"
	"agentd/internal/operation/opconfig"
)

// The buffers that the operator sets are those of readers that are there already.
func TestBuffersOfReaders(t *testing.T) {
	t.Parallel()
	p := &platform{hub: event.NewHub()}
	reader := p.hub.Subscribe("run.one")
	defer reader.Close()
	m := p.machinery()
	send := func(events, bytes int) (kept, dropped int) {
		for range events {
			p.hub.Publish(event.Batch{Stream: "run.one", Events: []event.Event{{Seq: 1, Name: "llm.chunk", Data: make([]byte, bytes)}}})
		}
		return drained(t, reader)
	}
	if kept, dropped := send(100, 1); kept != 100 || dropped != 0 {
		t.Errorf("at first %d are kept and %d dropped", kept, dropped)
	}
	set(t, m, `{"sse_buffer_events":16,"sse_buffer_bytes":1048576}`)
	if kept, dropped := send(100, 1); kept != 16 || dropped != 84 {
		t.Errorf("with 16 events %d are kept and %d dropped", kept, dropped)
	}
	set(t, m, `{"sse_buffer_events":768,"sse_buffer_bytes":1000}`)
	if kept, _ := send(20, 100); kept > 10 {
		t.Errorf("with 1000 bytes %d events of 100 are kept", kept)
	}
}

func set(t *testing.T, m opconfig.Machinery, section string) {
	t.Helper()
	var b opconfig.Backpressure
	if err := json.Unmarshal([]byte(section), &b); err != nil {
		t.Fatal(err)
	}
	m.Buffer(b)
}

// drained returns how many events waited for a reader, and how many were dropped.
func drained(t *testing.T, reader *event.Subscription) (kept, dropped int) {
	t.Helper()
	<-reader.Ready()
	batches, dropped, err := reader.Drain()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		kept += len(b.Events)
	}
	return kept, dropped
}
