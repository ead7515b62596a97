// Package terminalserver serves the terminals of workspaces over WebSockets. Binary frames
// are bytes of the terminal, text frames are JSON objects with a type (docs/files.md). What a
// terminal may do is package workspace's.
//
// A connection has four goroutines: one reads what is typed, one sends what is shown, one
// looks whether the client is there, and that of its request waits for the first end.
package terminalserver

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/content/workspace"
	"agentd/internal/edge/httpapi"
)

// Codes with which a connection is closed, beside those of the protocol.
const (
	closeUnauthorized websocket.StatusCode = 4001 // the key or the session is no longer valid, or no longer of an admin
	closeOff          websocket.StatusCode = 4003 // the operator has switched terminals off
	closeTime         websocket.StatusCode = 4008 // nothing was typed for too long, or it was open for too long
)

const (
	idleTime    = 30 * time.Minute // without input
	longestTime = 8 * time.Hour
	writeTime   = 30 * time.Second // for a client to read what is shown
	pingEvery   = 30 * time.Second
	lookEvery   = 2 * time.Second
	endTime     = time.Minute // for the audit log, once the shell has ended
	maxFrame    = 64 << 10
	chunk       = 16 << 10
	// outputASecond is how much a terminal shows at most, so that a program that prints for
	// ever takes no more than that of the processors and the network.
	outputASecond  = 4 << 20
	closeReasonMax = 120
)

// Server serves terminals.
type Server struct {
	Terminals *workspace.Terminals
	Log       *slog.Logger
	// Idle and Longest are how long a terminal may be open, without input and at all; 0: 30
	// minutes and 8 hours.
	Idle, Longest time.Duration
}

type terminalIn struct {
	WorkspaceID string `path:"workspaceId"`
	Cols        int    `query:"cols" minimum:"1" maximum:"1000" default:"80" doc:"Columns of the terminal at first."`
	Rows        int    `query:"rows" minimum:"1" maximum:"500" default:"24" doc:"Lines of the terminal at first."`
	Workdir     string `query:"workdir" doc:"Folder of the workspace that the shell begins in. Default: the root."`
}

// Endpoints returns the WebSocket.
func (s *Server) Endpoints() []httpapi.Raw {
	return []httpapi.Raw{{
		Row: route.Row{
			Method: "GET", Path: "/api/v1/workspaces/{workspaceId}/terminal", ID: "getWorkspaceTerminal", Tag: "Workspaces",
			Summary: "Open a terminal in a workspace",
			Doc: "A WebSocket to a shell on a copy of the workspace's files, in the sandbox of run-command. Binary frames are bytes of the " +
				"terminal in both directions; the client also sends {\"type\":\"resize\",\"cols\":…,\"rows\":…} and {\"type\":\"save\"}. " +
				"What the shell changed is taken over on save and at the end, which a frame {\"type\":\"exit\"} reports. " +
				"Off until the operator switches it on (403 FEATURE_DISABLED); 501 where the machine cannot confine programs.",
			Scopes: []authz.Scope{"files:write"}, Role: authz.Admin, Status: http.StatusSwitchingProtocols,
			Errors: []int{400, 403, 404, 409, 422, 429, 501, 503},
		},
		Upgrade: true, In: reflect.TypeFor[terminalIn](), Serve: s.serve,
	}}
}

// serve is the chain's handler. It returns when the terminal has ended.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	in, err := httpapi.Params[terminalIn](r)
	if err != nil {
		return err
	}
	if who.StreamOnly {
		return fault.New(fault.Forbidden, "", "A stream token reads streams; a terminal needs a key or a signed-in person.")
	}
	if err := s.Terminals.MayOpen(r.Context(), who, in.WorkspaceID); err != nil {
		return err
	}
	if !httpapi.IsUpgrade(r) {
		return fault.New(fault.Malformed, "", "This address takes WebSockets only: send the headers Connection: Upgrade and Upgrade: websocket.")
	}
	socket, err := httpapi.OpenSocket(r, who)
	if err != nil {
		return err
	}
	defer socket.Close()
	c := &connection{s: s, alive: socket.Context(), revoked: socket.Revoked}
	ctx, cancel := context.WithCancel(socket.Context())
	defer cancel()
	c.terminal, err = s.Terminals.Open(ctx, who, in.WorkspaceID, workspace.TerminalSpec{
		Dir: in.Workdir, Cols: uint16(in.Cols), Rows: uint16(in.Rows), Saved: c.saved,
	})
	if err != nil {
		return err
	}
	ended := ending{websocket.StatusAbnormalClosure, "not connected", ""}
	shown := make(chan struct{})
	c.ws, err = websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: httpapi.OfferedProtocols(r), CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil { // it was answered
		close(shown)
		c.finish(ctx, ended, shown)
		return nil
	}
	defer c.ws.CloseNow()
	c.ws.SetReadLimit(maxFrame)
	c.typed.Store(time.Now().UnixNano())
	var running sync.WaitGroup
	left := make(chan struct{})
	running.Go(func() { defer close(left); c.read() })
	running.Go(func() { defer close(shown); c.show(ctx) })
	running.Go(func() { c.ping(ctx) })
	ended = c.wait(left)
	c.deaf.Store(true)
	c.finish(ctx, ended, shown)
	cancel()
	running.Wait()
	return nil
}

// connection is the connection of one terminal.
type connection struct {
	s        *Server
	alive    context.Context // ends with the credential, and with the server
	revoked  func() bool     // the credential is no longer valid
	ws       *websocket.Conn
	terminal *workspace.Terminal

	deaf  atomic.Bool  // nothing is typed any more
	typed atomic.Int64 // when something was typed, in nanoseconds
}

// ending is how a connection is closed.
type ending struct {
	code   websocket.StatusCode
	reason string // for the audit log
	detail string // for the client
}

// wait returns why the terminal ends.
func (c *connection) wait(left <-chan struct{}) ending {
	idle, longest := cmp.Or(c.s.Idle, idleTime), cmp.Or(c.s.Longest, longestTime)
	over := time.NewTimer(longest)
	defer over.Stop()
	tick := time.NewTicker(min(lookEvery, idle))
	defer tick.Stop()
	for {
		select {
		case <-c.terminal.Ended():
			return ending{websocket.StatusNormalClosure, "exited", ""}
		case <-left:
			return ending{websocket.StatusNormalClosure, "disconnected", ""}
		case <-c.alive.Done():
			if c.revoked() {
				return ending{closeUnauthorized, "revoked", "The key or the session is no longer valid here."}
			}
			return ending{websocket.StatusServiceRestart, "server stopped", "This server is stopping; connect again."}
		case <-over.C:
			return ending{closeTime, "time", "The terminal was open as long as terminals may be; open another."}
		case <-tick.C:
			if time.Since(time.Unix(0, c.typed.Load())) > idle {
				return ending{closeTime, "idle", "Nothing was typed for too long; open another terminal."}
			}
			if err := c.s.Terminals.On(); err != nil {
				return ending{closeOff, "switched off", fault.From(err).Detail}
			}
		}
	}
}

// exitFrame is the last that a client gets.
type exitFrame struct {
	Type     string `json:"type"` // exit
	ExitCode int    `json:"exit_code"`
	Lost     bool   `json:"lost"`
	workspace.TakenOver
}

// finish ends the shell, reports how it ended, and closes the connection.
func (c *connection) finish(ctx context.Context, e ending, shown <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	end, err := c.terminal.End(ctx, e.reason, shown)
	if err != nil {
		c.s.Log.Warn("a terminal did not end as it should", "err", err)
	}
	if c.ws == nil {
		return
	}
	_ = c.write(exitFrame{"exit", end.ExitCode, end.Lost, end.Taken}) // the client may have left
	_ = c.ws.Close(e.code, e.detail[:min(len(e.detail), closeReasonMax)])
}

// write sends a text frame.
func (c *connection) write(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, data)
}

type savedFrame struct {
	Type string `json:"type"` // saved
	workspace.TakenOver
}

// saved reports what was taken over while the shell goes on.
func (c *connection) saved(t workspace.TakenOver) {
	_ = c.write(savedFrame{"saved", t}) // the client may have left
}

type errorFrame struct {
	Type   string `json:"type"` // error
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// read types what the client sends, until it leaves.
func (c *connection) read() {
	for {
		kind, data, err := c.ws.Read(context.Background())
		if err != nil {
			return
		}
		if c.deaf.Load() {
			continue
		}
		c.typed.Store(time.Now().UnixNano())
		f := frame{Type: "input"}
		if kind == websocket.MessageText {
			f = decode(data)
			data = []byte(f.Data)
		}
		if c.handle(&f, data) != nil {
			return
		}
	}
}

func (c *connection) handle(f *frame, typed []byte) error {
	switch {
	case f.Type == "save":
		if !c.terminal.Save() {
			return c.write(errorFrame{"error", "SAVE_UNDER_WAY", "The files are being saved already."})
		}
	case f.Type == "resize" && !f.fits():
		return c.write(errorFrame{"error", "BAD_SIZE", "A terminal has 1 to 1000 cols and 1 to 500 rows."})
	case f.Type == "resize":
		return c.terminal.Resize(f.Cols, f.Rows)
	default:
		if _, err := c.terminal.Write(typed); err != nil {
			return c.write(errorFrame{"error", "INPUT_DROPPED", "The program does not read what is typed; it was dropped."})
		}
	}
	return nil
}

// show sends what the shell shows, as fast as the client reads and not faster than a bound.
// What a client does not read waits in the terminal, and the programs there with it.
func (c *connection) show(ctx context.Context) {
	buffer := make([]byte, chunk)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for begun, sent := time.Now(), 0; ; {
		n, err := c.terminal.Read(buffer)
		if err != nil {
			return
		}
		writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
		err = c.ws.Write(writing, websocket.MessageBinary, buffer[:n])
		cancel()
		if err != nil {
			c.ws.CloseNow() // the reader learns of it
			return
		}
		sent += n
		if wait := time.Duration(sent)*time.Second/outputASecond - time.Since(begun); wait > 0 {
			pause.Reset(wait)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		} else if wait < -time.Second { // it may catch up by no more than that
			begun, sent = time.Now(), 0
		}
	}
}

// ping closes the connection of a client that is no longer there.
func (c *connection) ping(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			answered, cancel := context.WithTimeout(ctx, pingEvery)
			err := c.ws.Ping(answered)
			cancel()
			if err != nil {
				c.ws.CloseNow()
				return
			}
		}
	}
}
