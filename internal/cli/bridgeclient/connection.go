package bridgeclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"agentd/internal/base/ident"
)

// Codes with which the server closes a connection; see docs/bridge.md.
const (
	closeUnauthorized websocket.StatusCode = 4001
	closeUnknown      websocket.StatusCode = 4004
)

const (
	dialTime = 15 * time.Second
	maxFrame = 16 << 20 // a task may have a long conversation
)

// stayConnected keeps a connection until ctx ends, or the server refuses the machine.
func (m *machine) stayConnected(ctx context.Context) error {
	for try := 0; ; {
		greeted, err := m.connection(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if greeted {
			try = 0
		}
		switch websocket.CloseStatus(err) {
		case closeUnauthorized:
			return errors.New("the server refuses the key: it was revoked, or may not connect machines (agents:write, role developer)")
		case closeUnknown:
			if err := m.register(ctx, false); err != nil {
				return err
			}
		}
		if refused, ok := errors.AsType[*refusedError](err); ok {
			return refused
		}
		if try == 0 {
			m.Say("The connection to the server ended (%v); connecting again.", err)
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
		try++
	}
}

// refusedError is the error of a connection that the server does not open.
type refusedError struct{ status int }

func (e *refusedError) Error() string {
	return fmt.Sprintf("the server refuses to connect the machine: %d %s", e.status, http.StatusText(e.status))
}

// frame is a message of the server.
type frame struct {
	Type      string `json:"type"`
	TaskID    string `json:"task_id"`
	Task      task   `json:"task"`
	Heartbeat int    `json:"heartbeat_seconds"`
}

// decode reads a frame, and reports whether it is one that this program understands. The id
// of a task names a file.
func decode(data []byte) (f frame, ok bool) {
	if json.Unmarshal(data, &f) != nil || f.Type == "task" && !ident.Valid(f.Task.TaskID) {
		return frame{}, false
	}
	return f, true
}

// heartbeatEvery returns how often the server wants a heartbeat.
func (f *frame) heartbeatEvery() time.Duration {
	return time.Duration(min(max(1, f.Heartbeat), 3600)) * time.Second
}

// connection connects once and takes what the server sends until the connection ends. It
// reports whether the server took the machine.
func (m *machine) connection(ctx context.Context) (greeted bool, err error) {
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	url := "ws" + strings.TrimPrefix(strings.TrimRight(m.URL, "/"), "http") + "/api/v1/bridge/ws"
	//nolint:bodyclose // Dial reads and closes the body itself
	conn, res, err := websocket.Dial(dialing, url, &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + m.Key.Reveal()}},
	})
	if err != nil {
		if res != nil && (res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden) {
			return false, &refusedError{res.StatusCode}
		}
		return false, err
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxFrame)
	if err := send(dialing, conn, map[string]string{"type": "hello", "machine_id": m.id}); err != nil {
		return false, err
	}
	beats, stop := context.WithCancel(ctx)
	defer stop()
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			return greeted, err
		}
		f, ok := decode(data)
		if !ok {
			continue // a newer server may send what this program does not know
		}
		switch f.Type {
		case "welcome":
			if !greeted {
				go heartbeat(beats, conn, f.heartbeatEvery())
			}
			greeted = true
		case "task":
			m.take(ctx, openJournal(m.State, f.Task))
		case "cancel":
			m.cancel(f.TaskID)
		}
	}
}

// heartbeat says every so often that the machine is there. It is a goroutine, which ends
// with ctx.
func heartbeat(ctx context.Context, conn *websocket.Conn, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if send(ctx, conn, map[string]string{"type": "heartbeat"}) != nil {
				_ = conn.CloseNow() // the reader connects again
				return
			}
		}
	}
}

func send(ctx context.Context, conn *websocket.Conn, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	return conn.Write(ctx, websocket.MessageText, data)
}
