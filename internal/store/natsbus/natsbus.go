// Package natsbus carries live batches and signals between nodes over NATS:
// an outside cluster, or the server that is embedded in every agentd.
//
// Within a node the event.Hub delivers without the bus, which serves other nodes
// only: nothing is sent to an embedded server without other connections.
// Messages may be lost: readers catch up from the event log, and workers find
// due work in the database.
package natsbus

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"agentd/internal/base/lasting"
	"agentd/internal/kernel/event"
)

// Config selects the NATS server to use.
type Config struct {
	URL    string   // an outside server or cluster; empty: embedded
	Listen string   // host:port on which the embedded server accepts other nodes; empty: none
	Tokens []string // authenticate nodes, if the URL names no user: the first is sent, all are accepted
	Node   string   // this node's name, for the connection list
	Logger *slog.Logger
}

// Bus is a connection; it implements event.Relay.
type Bus struct {
	hub      *event.Hub
	log      *slog.Logger
	conn     *nats.Conn
	embedded *server.Server
	closed   bool // no other node can ever connect to the embedded server

	live    chan *nats.Msg // batches of all streams that are watched
	stop    chan struct{}
	reading sync.WaitGroup
}

const (
	liveSubject   = "agentd.live."
	signalSubject = "agentd.signal."
	settleTime    = 250 * time.Millisecond
	// waiting is how many batches of other nodes may wait to be delivered.
	// Batches beyond it are lost, and readers are notified of the gap.
	waiting = 16 << 10
)

// Open connects and attaches to the hub. It also succeeds if an outside server
// does not answer yet: the connection is retried.
func Open(c Config, hub *event.Hub) (*Bus, error) {
	b := &Bus{hub: hub, log: c.Logger, live: make(chan *nats.Msg, waiting), stop: make(chan struct{})}
	away := lasting.New(c.Logger, "nats is away")
	opts := []nats.Option{
		nats.Name("agentd " + c.Node), nats.NoEcho(), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			b.log.Warn("nats", "err", err)
			if errors.Is(err, nats.ErrSlowConsumer) {
				hub.Resync()
			}
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			hub.SetConnected(false)
			if err != nil { // else it is closed
				away.Notice("err", err)
			}
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { away.Notice("err", err) }),
		nats.ReconnectHandler(func(*nats.Conn) { // at the first connection too, where that came late
			hub.SetConnected(true)
			away.End()
		}),
	}
	if len(c.Tokens) > 0 && !strings.Contains(c.URL, "@") {
		opts = append(opts, nats.Token(c.Tokens[0]))
	}
	url := c.URL
	if url == "" {
		if err := b.embed(c); err != nil {
			return nil, err
		}
		url = b.embedded.ClientURL()
		opts = append(opts, nats.InProcessServer(b.embedded))
	}
	var err error
	if b.conn, err = nats.Connect(url, opts...); err != nil {
		b.Close()
		return nil, fmt.Errorf("natsbus: %w", err)
	}
	if _, err = b.conn.Subscribe(signalSubject+">", b.onSignal); err != nil {
		b.Close()
		return nil, fmt.Errorf("natsbus: %w", err)
	}
	hub.Attach(b)
	if !b.conn.IsConnected() {
		hub.SetConnected(false)
	}
	b.reading.Go(b.read)
	return b, nil
}

func (b *Bus) embed(c Config) error {
	opts := &server.Options{ServerName: "agentd-" + c.Node, DontListen: c.Listen == "", NoSigs: true, NoLog: true, MaxPayload: 8 << 20}
	if c.Listen != "" {
		if len(c.Tokens) > 0 {
			opts.CustomClientAuthentication = accepted(c.Tokens)
		}
		host, port, err := net.SplitHostPort(c.Listen)
		if err != nil {
			return fmt.Errorf("natsbus: the address to listen on: %w", err)
		}
		opts.Host = host
		if opts.Port, err = strconv.Atoi(port); err != nil {
			return fmt.Errorf("natsbus: the port to listen on: %w", err)
		}
		if opts.Port == 0 {
			opts.Port = server.RANDOM_PORT
		}
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("natsbus: %w", err)
	}
	srv.Start()
	if !srv.ReadyForConnections(5 * time.Second) {
		srv.Shutdown()
		return errors.New("natsbus: the embedded server did not start; is its address taken?")
	}
	b.embedded, b.closed = srv, c.Listen == ""
	return nil
}

// accepted are the tokens that the embedded server accepts.
type accepted []string

// Check implements server.Authentication.
func (a accepted) Check(c server.ClientAuthentication) bool {
	token, ok := c.GetOpts().Token, false
	for _, one := range a {
		ok = subtle.ConstantTimeCompare([]byte(one), []byte(token)) == 1 || ok
	}
	return ok
}

// URL returns the address of the embedded server for other nodes, if it listens.
func (b *Bus) URL() string {
	if b.embedded == nil {
		return b.conn.ConnectedUrl()
	}
	return b.embedded.ClientURL()
}

// Close ends the connection and the embedded server.
func (b *Bus) Close() {
	if b.conn != nil {
		b.conn.Close()
	}
	close(b.stop)
	b.reading.Wait()
	if b.embedded != nil {
		b.embedded.Shutdown()
		b.embedded.WaitForShutdown()
	}
}

// Alone reports whether no other node is connected: the embedded server has one
// client.
func (b *Bus) Alone() bool {
	return b.closed || b.embedded != nil && b.embedded.NumClients() <= 1
}

// Forward implements event.Relay.
func (b *Bus) Forward(batch event.Batch) {
	if b.Alone() {
		return
	}
	body, err := json.Marshal(batch)
	if err == nil {
		err = b.conn.Publish(liveSubject+batch.Stream, body)
	}
	if errors.Is(err, nats.ErrMaxPayload) {
		err = b.hint(batch.Stream)
	}
	if err != nil {
		b.log.Warn("a live batch was not forwarded", "stream", batch.Stream, "err", err)
	}
}

// hint makes the readers of a stream on other nodes read the log, instead of a batch
// that is larger than the server takes (1 MiB, unless it is configured otherwise).
func (b *Bus) hint(stream string) error {
	body, err := json.Marshal(event.Batch{Stream: stream})
	if err != nil {
		return err
	}
	return b.conn.Publish(liveSubject+stream, body)
}

// Watch implements event.Relay.
func (b *Bus) Watch(stream string) (stop func()) {
	if b.closed {
		return func() {}
	}
	sub, err := b.conn.ChanSubscribe(liveSubject+stream, b.live) // which takes no goroutine
	if err != nil {
		b.log.Warn("a stream cannot be watched on other nodes", "stream", stream, "err", err)
		return func() {}
	}
	return func() { _ = sub.Unsubscribe() } // a closed connection has none left
}

// read delivers the batches of other nodes for the streams that are watched.
func (b *Bus) read() {
	for {
		select {
		case <-b.stop:
			return
		case m := <-b.live:
			var batch event.Batch
			if err := json.Unmarshal(m.Data, &batch); err != nil {
				b.log.Warn("a live batch could not be read", "subject", m.Subject, "err", err)
				continue
			}
			b.hub.Deliver(batch)
		}
	}
}

// Settle implements event.Relay.
func (b *Bus) Settle() {
	if !b.Alone() && b.conn.IsConnected() {
		_ = b.conn.FlushTimeout(settleTime) // after a time-out the reader catches up from the log
	}
}

// Signal implements event.Relay.
func (b *Bus) Signal(topic, key string) {
	if b.Alone() {
		return
	}
	if err := b.conn.Publish(signalSubject+topic, []byte(key)); err != nil {
		b.log.Warn("a signal was not forwarded", "topic", topic, "err", err)
	}
}

func (b *Bus) onSignal(m *nats.Msg) {
	b.hub.SignalLocal(strings.TrimPrefix(m.Subject, signalSubject), string(m.Data))
}

var _ event.Relay = (*Bus)(nil)
