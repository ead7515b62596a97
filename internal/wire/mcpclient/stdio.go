package mcpclient

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/fault"
	"agentd/internal/wire/sandbox"
)

const (
	// stopGrace is how long a process may take to exit after its input was closed.
	stopGrace = 2 * time.Second
	// maxStderr is how many bytes of a process's error output are kept for the log.
	maxStderr = 4 << 10
)

// process implements sdk.Transport with a sandboxed command.
type process struct {
	m        *Manager
	target   *mcp.Target
	onBroken func(error)
}

// Connect implements sdk.Transport.
func (p *process) Connect(context.Context) (sdk.Connection, error) {
	if err := p.m.startProcess(p.target.TenantID); err != nil {
		return nil, err
	}
	c, err := p.start()
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (p *process) start() (*pipe, error) {
	c := &pipe{p: p, stderr: &tail{}, exited: make(chan struct{}), closeRequested: make(chan struct{}), incoming: make(chan []byte)}
	command, ok := p.m.Commands[p.target.Command]
	err := errNotAllowed
	if ok {
		c.process, err = p.m.Sandbox.Start(sandbox.Spec{Command: command, Args: p.target.Args, Env: p.target.Env, Stderr: c.stderr})
	}
	if err != nil {
		p.m.processEnded(p.target.TenantID)
		return nil, fault.New(fault.Unavailable, codeUnreachable, "The MCP server %s cannot be started.", p.target.Name).Because(err)
	}
	if !p.m.spawn(c.run) {
		c.process.Signal(syscall.SIGKILL)
		c.run()
		return nil, errStopped
	}
	return c, nil
}

// errNotAllowed is the cause where a target names a command that is not in the
// configuration.
var errNotAllowed = errors.New("the operator does not allow the command")

// pipe is the connection to a process.
type pipe struct {
	p       *process
	process *sandbox.Process
	stderr  *tail

	incoming       chan []byte
	exited         chan struct{} // its output has ended, and it is dead
	closing        sync.Once
	closeRequested chan struct{} // Close was called

	writing sync.Mutex
}

// run reads the process's output to its end, then kills the process and everything
// that it started.
func (c *pipe) run() {
	defer close(c.exited)
	lines := bufio.NewReaderSize(c.process.Stdout, 64<<10)
	for {
		line, err := readLine(lines, c.p.m.MaxMessage)
		if errors.Is(err, errTooBig) {
			c.p.onBroken(errTooBig)
		}
		if err != nil {
			break
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		select {
		case c.incoming <- line:
		case <-c.closeRequested:
		}
	}
	err := c.process.Wait()
	c.p.m.processEnded(c.p.target.TenantID)
	c.p.m.Logger.Info("the process of an MCP server ended", "tenant", c.p.target.TenantID, "server", c.p.target.ServerID, "err", err,
		"stderr", c.stderr.String())
}

// readLine reads a line of at most limit bytes.
func readLine(r *bufio.Reader, limit int64) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if int64(len(line)+len(part)) > limit {
			return nil, errTooBig
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// Read implements sdk.Connection.
func (c *pipe) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case line := <-c.incoming:
		msg, err := jsonrpc.DecodeMessage(line)
		if err != nil {
			err = fmt.Errorf("a line that is not a message: %w", err)
			c.p.onBroken(err)
			return nil, err
		}
		return msg, nil
	case <-c.exited:
		return nil, io.EOF
	case <-c.closeRequested:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements sdk.Connection. A process that does not read its input is killed
// with the context, because a partly written message cannot be resumed.
func (c *pipe) Write(ctx context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	written := make(chan struct{})
	defer close(written)
	stop := context.AfterFunc(ctx, func() {
		grace := time.NewTimer(stopGrace)
		defer grace.Stop()
		select {
		case <-written:
		case <-grace.C:
			c.process.Signal(syscall.SIGKILL)
		}
	})
	defer stop()
	_, err = c.process.Stdin.Write(append(data, '\n'))
	return err
}

// Close implements sdk.Connection: it closes the process's input, then sends SIGTERM,
// then SIGKILL to its process group, with stopGrace between.
func (c *pipe) Close() error {
	c.closing.Do(func() {
		close(c.closeRequested)
		c.process.Stdin.Close()
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			wait := time.NewTimer(stopGrace)
			select {
			case <-c.exited:
				wait.Stop()
				return
			case <-wait.C:
				c.process.Signal(signal)
			}
		}
	})
	<-c.exited
	return nil
}

// SessionID implements sdk.Connection.
func (c *pipe) SessionID() string { return "" }

// tail keeps the last bytes that are written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-maxStderr):]...)
	if over := len(t.text) - maxStderr; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// String returns them on one line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return sentence(string(t.text), len(t.text))
}
