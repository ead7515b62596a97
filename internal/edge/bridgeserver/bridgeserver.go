// Package bridgeserver serves the WebSocket of machines: they receive their tasks as these
// come, and report over the same connection. Its frames are JSON objects with a type
// (docs/bridge.md). What they mean is package bridge's.
//
// A connection has two goroutines: that of its request reads, the other one sends tasks.
package bridgeserver

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
	"agentd/internal/teams/bridge"
)

// Path is where machines connect.
const Path = "/api/v1/bridge/ws"

// Codes with which a connection is closed, beside those of the protocol.
const (
	closeUnauthorized websocket.StatusCode = 4001 // the key is missing, wrong or revoked
	closeUnknown      websocket.StatusCode = 4004 // the machine is not registered with this key's member
	closeFlood        websocket.StatusCode = 4008 // too many frames
	closeBadFrame     websocket.StatusCode = 4400 // a frame that cannot be understood
)

const (
	greetingTime   = 10 * time.Second // for the key, and for the machine to say who it is
	silenceTime    = 2 * time.Minute  // without a frame, after which a connection is closed
	writeTime      = 10 * time.Second
	maxFrame       = bridge.MaxBody + 4<<10
	framesAtOnce   = 400              // that may come in a burst
	framesASecond  = 100              // and come back in a second
	lookEvery      = 20 * time.Second // into the store, as signals may be lost
	reportTime     = 30 * time.Second
	closeReasonMax = 120
)

// Server serves the connections of machines.
type Server struct {
	Bridge *bridge.Service
	// Greeting is how long a client may take to say who it is; 0: 10 seconds.
	Greeting time.Duration
}

// Endpoints returns the WebSocket.
func (s *Server) Endpoints() []httpapi.Raw {
	return []httpapi.Raw{{
		Row: route.Row{
			Method: "GET", Path: Path, ID: "bridgeWebSocket", Tag: "Bridge", Summary: "Connect a machine over a WebSocket",
			Doc: "The key comes in the header Authorization, as the subprotocol svc.<base64 of the key>, or in a first frame " +
				"{\"type\":\"auth\",\"token\":…} within 10 seconds. " +
				"Then the machine says which one it is, receives its tasks as they come, and reports on them.",
			Scopes: []authz.Scope{"agents:write"}, Role: authz.Developer, Status: http.StatusSwitchingProtocols,
			Errors: []int{400, 403, 501},
		},
		Upgrade: true, LateKey: true, Serve: s.serve,
	}}
}

// serve is the chain's handler. It returns when the connection has ended.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	if !httpapi.IsUpgrade(r) {
		return fault.New(fault.Malformed, "", "This address takes WebSockets only: send the headers Connection: Upgrade and Upgrade: websocket.")
	}
	if who.TenantID != "" {
		if err := mayConnect(who); err != nil {
			return err
		}
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: httpapi.OfferedProtocols(r), CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil // it was answered
	}
	conn.SetReadLimit(maxFrame)
	c := &connection{s: s, ws: conn, who: who, left: framesAtOnce, filled: time.Now()}
	defer conn.CloseNow()
	greeting := s.Greeting
	if greeting == 0 {
		greeting = greetingTime
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), greeting)
	defer cancel()
	if !c.authenticate(ctx, r) {
		return nil
	}
	socket, err := httpapi.OpenSocket(r, c.who)
	if err != nil {
		c.end(websocket.StatusTryAgainLater, fault.From(err).Detail)
		return nil
	}
	defer socket.Close()
	if !c.greet(ctx) {
		return nil
	}
	cancel()
	c.run(socket)
	return nil
}

// mayConnect refuses callers that are no programs with keys of their own.
func mayConnect(who authz.Caller) error {
	if who.KeyID == "" || who.StreamOnly {
		return fault.New(fault.Forbidden, "", "A machine connects with an API key; a browser session or a stream token cannot.")
	}
	return nil
}

// connection is the connection of one machine.
type connection struct {
	s       *Server
	ws      *websocket.Conn
	who     authz.Caller
	machine *bridge.Machine

	left   float64   // frames that it may send now
	filled time.Time // when left was computed
}

// read returns the next frame; not ok: the connection has ended.
func (c *connection) read(ctx context.Context) (f frame, ok bool) {
	kind, data, err := c.ws.Read(ctx)
	switch {
	case err != nil:
		return f, false
	case kind != websocket.MessageText:
		c.end(closeBadFrame, "A frame is a JSON object, sent as text.")
		return f, false
	}
	if f, ok = decode(data); !ok {
		c.end(closeBadFrame, "A frame is a JSON object with a type.")
	}
	return f, ok
}

// end closes the connection with a code and a reason, which the protocol bounds.
func (c *connection) end(code websocket.StatusCode, reason string) {
	if len(reason) > closeReasonMax {
		reason = reason[:closeReasonMax]
	}
	_ = c.ws.Close(code, reason)
}

// authenticate reads the first frame where the request had no key.
func (c *connection) authenticate(ctx context.Context, r *http.Request) bool {
	if c.who.TenantID != "" {
		return true
	}
	f, ok := c.read(ctx)
	if !ok {
		c.end(closeUnauthorized, "No key came in time.")
		return false
	}
	if f.Type != "auth" {
		c.end(closeUnauthorized, "The first frame must be auth, with the key as its token.")
		return false
	}
	who, err := httpapi.AuthenticateLate(r, f.Token)
	if err == nil {
		err = mayConnect(who)
	}
	if err != nil {
		c.end(closeUnauthorized, fault.From(err).Detail)
		return false
	}
	c.who = who
	return true
}

// greet reads which machine it is.
func (c *connection) greet(ctx context.Context) bool {
	f, ok := c.read(ctx)
	switch {
	case !ok:
		c.end(closeBadFrame, "The machine did not say hello in time.")
		return false
	case f.Type != "hello" || f.MachineID == "":
		c.end(closeBadFrame, "The next frame must be hello, with the machine_id.")
		return false
	}
	m, err := c.s.Bridge.Join(ctx, c.who, f.MachineID)
	if err != nil {
		c.end(closeUnknown, fault.From(err).Detail)
		return false
	}
	c.machine = m
	return c.write(welcome{"welcome", m.AgentID, int(bridge.HeartbeatEvery / time.Second)}) == nil
}

type welcome struct {
	Type      string `json:"type"`
	AgentID   string `json:"agent_id"`
	Heartbeat int    `json:"heartbeat_seconds"`
}

// write sends a frame.
func (c *connection) write(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, data)
}

// run reads frames until the connection ends.
func (c *connection) run(socket *httpapi.Socket) {
	ctx, cancel := context.WithCancel(socket.Context())
	var telling sync.WaitGroup
	telling.Go(func() { c.tell(ctx, socket) })
	defer telling.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		switch {
		case socket.Revoked():
			c.end(closeUnauthorized, "The key is no longer valid.")
		case socket.Draining():
			c.end(websocket.StatusServiceRestart, "This server is stopping; connect again.")
		}
	})()
	for {
		reading, stop := context.WithTimeout(context.Background(), silenceTime)
		f, ok := c.read(reading)
		stop()
		switch {
		case !ok:
			return
		case !c.mayGo():
			c.end(closeFlood, "The machine sends more than 100 frames a second; put events together.")
			return
		case c.isOff(socket):
			return
		case !c.handle(ctx, &f):
			return
		}
	}
}

// isOff closes the connection if the operator has switched off machines, and reports whether
// it did. Machines connect again later.
func (c *connection) isOff(socket *httpapi.Socket) bool {
	err := socket.CheckFeature()
	if err != nil {
		c.end(websocket.StatusTryAgainLater, fault.From(err).Detail)
	}
	return err != nil
}

// mayGo reports whether the machine may send the frame that came.
func (c *connection) mayGo() bool {
	now := time.Now()
	c.left = min(framesAtOnce, c.left+now.Sub(c.filled).Seconds()*framesASecond)
	c.filled = now
	c.left--
	return c.left >= 0
}

// refusal is the answer to a frame that was not taken.
type refusal struct {
	Type   string        `json:"type"` // error
	ID     string        `json:"id,omitzero"`
	TaskID string        `json:"task_id,omitzero"`
	Code   string        `json:"code"`
	Detail string        `json:"detail"`
	Errors []fault.Field `json:"errors,omitzero"`
}

// receipt is the answer to a report.
type receipt struct {
	Type   string `json:"type"` // receipt
	ID     string `json:"id,omitzero"`
	TaskID string `json:"task_id"`
	bridge.Receipt
}

// handle takes a frame, and reports whether the connection goes on.
func (c *connection) handle(ctx context.Context, f *frame) bool {
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	switch f.Type {
	case "heartbeat":
		if err := c.s.Bridge.Seen(ctx, c.who, c.machine.MachineID, ""); fault.Is(err, fault.NotFound) {
			c.end(closeUnknown, fault.From(err).Detail)
			return false
		}
		return true
	case "events":
		return c.write(c.report(ctx, f)) == nil
	}
	return c.write(refusal{Type: "error", ID: f.ID, Code: "UNKNOWN_FRAME", Detail: "The type of a frame is heartbeat or events."}) == nil
}

// report takes events and returns the answer.
func (c *connection) report(ctx context.Context, f *frame) any {
	events, err := bridge.DecodeEvents(f.Events)
	if err == nil {
		var got *bridge.Receipt
		if got, err = c.s.Bridge.Report(ctx, c.who, f.TaskID, events); err == nil {
			return receipt{"receipt", f.ID, f.TaskID, *got}
		}
	}
	_, known := httpapi.Classify(err)
	return refusal{"error", f.ID, f.TaskID, known.Code, known.Detail, known.Fields}
}

type taskFrame struct {
	Type string             `json:"type"` // task
	Task bridge.PendingTask `json:"task"`
}

type cancelFrame struct {
	Type   string `json:"type"` // cancel
	TaskID string `json:"task_id"`
}

// tell sends the machine its tasks, and the end of those it has received. It is a
// goroutine, which ends with ctx.
func (c *connection) tell(ctx context.Context, socket *httpapi.Socket) {
	rang, stop := c.s.Bridge.Listen(c.machine.AgentID)
	defer stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	sent := map[string]struct{}{}
	for !c.isOff(socket) {
		if err := c.tellNews(ctx, sent); err != nil && errors.Is(err, errGone) {
			c.ws.CloseNow()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-rang:
		case <-tick.C:
		}
	}
}

var errGone = errors.New("bridgeserver: the machine does not read")

// tellNews compares the tasks that are open with those that the machine has received.
func (c *connection) tellNews(ctx context.Context, sent map[string]struct{}) error {
	open, err := c.s.Bridge.Open(ctx, c.machine)
	if err != nil {
		return err
	}
	there := make(map[string]struct{}, len(open))
	for i := range open {
		id := open[i].TaskID
		there[id] = struct{}{}
		if _, known := sent[id]; known {
			continue
		}
		if c.write(taskFrame{"task", open[i].Body}) != nil {
			return errGone
		}
		sent[id] = struct{}{}
	}
	if len(open) == bridge.OpenAtOnce { // there may be more, so that what is missing may be among them
		return nil
	}
	for id := range sent {
		if _, still := there[id]; still {
			continue
		}
		delete(sent, id)
		if c.write(cancelFrame{"cancel", id}) != nil {
			return errGone
		}
	}
	return nil
}
