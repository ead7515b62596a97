package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"agentd/internal/client"
)

type chatCommand struct {
	remote
	Agent   string `arg:"" optional:"" help:"Agent, by its id or its exact name; needed unless a session is named."`
	Session string `placeholder:"ID" help:"Continue this session. Left out: a new one."`
}

// Run implements the command.
func (cmd *chatCommand) Run(s *server) error {
	if cmd.Agent == "" && cmd.Session == "" {
		return usageError("the argument <agent> is missing: name an agent, or a session with --session ID")
	}
	c := &chat{server: s}
	defer c.takeInterrupts()()
	if cmd.Session != "" {
		doc, err := get[session](c.server, client.Path(client.SessionsPath, cmd.Session))
		if err != nil {
			return err
		}
		c.session, c.agent = cmd.Session, doc.Value.AgentID
	}
	if cmd.Agent != "" {
		id, err := s.agentID(cmd.Agent)
		switch {
		case err != nil:
			return err
		case c.session != "" && id != c.agent:
			return fmt.Errorf("session %s is one with the agent %s; leave the argument <agent> out", c.session, s.agentName(c.agent))
		}
		c.agent = id
	}
	if c.session == "" {
		if err := c.begin(); err != nil {
			return err
		}
	}
	return c.loop()
}

// chat is a conversation in the terminal, or on a pipe.
type chat struct {
	*server
	agent, session string
	failed         bool // a turn did not complete

	mu      sync.Mutex
	turn    context.CancelFunc // interrupts the turn under way; nil: there is none
	leave   context.CancelFunc // ends the conversation
	leaving context.Context
}

// takeInterrupts makes Ctrl-C end the turn under way instead of the program. The
// function that it returns ends that.
func (c *chat) takeInterrupts() (stop func()) {
	began := c.Context
	c.leaving, c.leave = context.WithCancel(context.WithoutCancel(began))
	s := *c.server
	inv := *c.invocation
	inv.Context = c.leaving
	s.invocation, c.server = &inv, &s
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-signals:
				c.interrupt(sig == os.Interrupt)
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
		c.leave()
	}
}

// interrupt ends the turn under way, or the conversation.
func (c *chat) interrupt(turnOnly bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn != nil {
		c.turn()
	}
	if c.turn == nil || !turnOnly {
		c.leave()
	}
}

// begin starts a session.
func (c *chat) begin() error {
	doc, err := call[session](c.server, http.MethodPost, client.SessionsPath, map[string]string{"agent_id": c.agent})
	if err == nil {
		c.session = doc.Value.SessionID
	}
	return err
}

// loop reads messages and commands to the end of the input.
func (c *chat) loop() error {
	in := &editor{inv: c.invocation}
	interactive := c.stdinTerminal && c.stderrTerminal
	if interactive {
		c.note("Chat with %s, session %s. /help lists the commands; Ctrl-D ends.", c.agentName(c.agent), c.session)
	}
	for {
		text, err := in.read("> ")
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		switch command, rest, _ := strings.Cut(strings.TrimSpace(text), " "); {
		case strings.TrimSpace(text) == "":
			continue
		case strings.HasPrefix(command, "//"):
			err = c.answer(strings.TrimSpace(text)[1:])
		case strings.HasPrefix(command, "/"):
			err = c.command(command, strings.TrimSpace(rest))
		default:
			err = c.answer(text)
		}
		if errors.Is(err, errLeave) {
			break
		}
		if _, left := errors.AsType[detached](err); left || err != nil && !interactive && !isTurnError(err) {
			return err
		}
		if err != nil {
			c.failed = true
			c.note("Error: %s", explain(err))
		}
	}
	if interactive {
		c.note("The conversation is kept:  %s chat --session %s", c.deps.Program, c.session)
	}
	if c.failed && !interactive {
		return errors.New("not every message was answered; the reasons stand above")
	}
	return nil
}

var errLeave = errors.New("the person left")

// turnError is that of a turn which did not complete; the conversation goes on.
type turnError struct{ error }

func isTurnError(err error) bool {
	_, ok := errors.AsType[turnError](err)
	return ok
}

// answer sends a message and follows its turn.
func (c *chat) answer(text string) error {
	doc, err := call[client.Run](c.server, http.MethodPost, client.Path(client.SessionsPath, c.session, "messages"),
		map[string]string{"content": text})
	if err != nil {
		return err
	}
	turn, stop := context.WithCancel(c.leaving)
	defer stop()
	c.mu.Lock()
	c.turn = stop
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.turn = nil
		c.mu.Unlock()
	}()
	f := c.newFollower(doc.Value.RunID)
	f.asks = true // on a pipe too: the next line is the answer
	f.again = fmt.Sprintf("%s chat --session %s", c.deps.Program, c.session)
	end, err := f.follow(turn)
	if err != nil {
		return err
	}
	if end.Status != "completed" {
		return turnError{c.failure(doc.Value.RunID, end.Status)}
	}
	return nil
}
