// Package receive is a receiver of webhooks that counts: which events came, how
// often, and how long after they were made. It answers as configured: at once,
// with a failure, later, or never. Like package load it speaks just enough
// HTTP/1.1, because net/http's server would take the cores that are measured.
package receive

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Request is a delivery, as the receiver decides what to answer.
type Request struct {
	EventID string
	Before  int // how often this event came before
}

// Answer is a status, or Hang.
type Answer int

// Hang keeps the sender waiting until it gives up.
const Hang Answer = 0

// OK takes every event.
func OK(Request) Answer { return 204 }

// Never answers nothing.
func Never(Request) Answer { return Hang }

// Receiver is one that listens.
type Receiver struct {
	listener net.Listener
	conns    sync.WaitGroup

	mu       sync.Mutex
	hold     chan struct{} // closed: no request waits
	answer   func(Request) Answer
	events   map[string]*seen
	accepted int // events
	repeats  int
	open     map[net.Conn]bool
}

// seen is what is known of an event.
type seen struct {
	requests int
	accepted int
	mark     string
	late     time.Duration // from the event's timestamp to its first arrival
}

// Listen starts a receiver on a free port of 127.0.0.1.
func Listen(answer func(Request) Answer) (*Receiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Receiver{listener: l, answer: answer, events: map[string]*seen{}, open: map[net.Conn]bool{}, hold: make(chan struct{})}
	close(r.hold)
	r.conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.open[c] = true
			r.mu.Unlock()
			r.conns.Go(func() { r.serve(c) })
		}
	})
	return r, nil
}

// URL is where it receives.
func (r *Receiver) URL() string { return "http://" + r.listener.Addr().String() + "/" }

// Close ends it.
func (r *Receiver) Close() {
	r.listener.Close()
	r.Release()
	r.mu.Lock()
	for c := range r.open {
		c.Close()
	}
	r.mu.Unlock()
	r.conns.Wait()
}

// Hold has every request wait for Release, so that a backlog grows.
func (r *Receiver) Hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = make(chan struct{})
}

// Release answers those that wait.
func (r *Receiver) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.hold:
	default:
		close(r.hold)
	}
}

// Reset forgets what came.
func (r *Receiver) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.events)
	r.accepted, r.repeats = 0, 0
}

// Accepted is how many events it has taken, each counted once, and Repeats how
// many requests brought one that it had taken before.
func (r *Receiver) Accepted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted
}

// Repeats is described at Accepted.
func (r *Receiver) Repeats() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.repeats
}

// Marks returns the ids of accepted events by their marks: what stands between
// "mark-" and the next quote in a body.
func (r *Receiver) Marks() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]string, len(r.events))
	for id, e := range r.events {
		if e.accepted > 0 {
			out[e.mark] = id
		}
	}
	return out
}

// Late returns how long after their timestamps events first arrived, sorted. The
// timestamp has milliseconds and is from before the commit, so that this is up
// to a millisecond and a commit more than the delivery took.
func Late(all ...*Receiver) (late []time.Duration) {
	for _, r := range all {
		r.mu.Lock()
		for _, e := range r.events {
			late = append(late, e.late)
		}
		r.mu.Unlock()
	}
	slices.Sort(late)
	return late
}

func (r *Receiver) serve(c net.Conn) {
	defer func() {
		c.Close()
		r.mu.Lock()
		delete(r.open, c)
		r.mu.Unlock()
	}()
	in := bufio.NewReaderSize(c, 16<<10)
	var body []byte
	for {
		id, length, err := head(in)
		if err != nil {
			return
		}
		body = slices.Grow(body[:0], length)[:length]
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		status, wait := r.take(id, body)
		if status == Hang {
			_, _ = io.Copy(io.Discard, in) // until the sender hangs up
			return
		}
		<-wait
		if _, err := fmt.Fprintf(c, "HTTP/1.1 %d x\r\nContent-Length: 0\r\n\r\n", status); err != nil {
			return
		}
	}
}

func (r *Receiver) take(id string, body []byte) (Answer, chan struct{}) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.events[id]
	if e == nil {
		e = &seen{mark: between(body, "mark-"), late: -1}
		if at, err := time.Parse(time.RFC3339Nano, between(body, `"timestamp":"`)); err == nil {
			e.late = now.Sub(at)
		}
		r.events[id] = e
	}
	status := r.answer(Request{id, e.requests})
	e.requests++
	if e.accepted > 0 {
		r.repeats++
	}
	if status >= 200 && status < 300 {
		if e.accepted == 0 {
			r.accepted++
		}
		e.accepted++
	}
	return status, r.hold
}

// between returns the text from a prefix to the next quote.
func between(body []byte, prefix string) string {
	_, rest, found := bytes.Cut(body, []byte(prefix))
	if !found {
		return ""
	}
	text, _, _ := bytes.Cut(rest, []byte{'"'})
	return string(text)
}

// head reads a request up to its body.
func head(in *bufio.Reader) (event string, length int, err error) {
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return "", 0, err
		}
		if first {
			continue
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found {
			if event == "" {
				return "", 0, errors.New("a request without an event's id")
			}
			return event, length, nil
		}
		switch {
		case bytes.EqualFold(name, []byte("X-Svc-Event-Id")):
			event = string(bytes.TrimSpace(value))
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return "", 0, err
			}
		}
	}
}
