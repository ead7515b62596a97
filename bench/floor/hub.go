package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// hub is the simplest fan-out of one event to many readers: a goroutine and a
// channel for each reader. Nothing is stored, and who is slow misses events.
type hub struct {
	mu     sync.RWMutex
	topics map[string]map[chan []byte]struct{}
}

func (h *hub) subscribe(w http.ResponseWriter, r *http.Request) {
	topic, events := r.URL.Query().Get("topic"), make(chan []byte, 16)
	h.mu.Lock()
	if h.topics[topic] == nil {
		h.topics[topic] = map[chan []byte]struct{}{}
	}
	h.topics[topic][events] = struct{}{}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.topics[topic], events)
		if len(h.topics[topic]) == 0 {
			delete(h.topics, topic)
		}
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(w)
	io.WriteString(w, ": connected\n\n")
	flusher.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case e := <-events:
			if _, err := w.Write(e); err != nil {
				return
			}
			flusher.Flush()
		}
	}
}

func (h *hub) publish(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	event := fmt.Appendf(nil, "data: %s\n\n", bytes.TrimSpace(body))
	h.mu.RLock()
	defer h.mu.RUnlock()
	for events := range h.topics[r.URL.Query().Get("topic")] {
		select {
		case events <- event:
		default:
		}
	}
	w.WriteHeader(http.StatusAccepted)
}
