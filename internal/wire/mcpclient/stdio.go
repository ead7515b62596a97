package mcpclient

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/fault"
)

const (
	// stopGrace is how long a process may take to end after its input has ended.
	stopGrace = 2 * time.Second
	// maxStderr is how much of a process's error output is kept for the log.
	maxStderr = 4 << 10
	// searchPath is where a process finds programs; ours is no business of it.
	searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// process implements sdk.Transport with a process of its own, in a process
// group and a directory of its own.
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
	dir, err := os.MkdirTemp("", "agentd-mcp-")
	if err != nil {
		p.m.processEnded(p.target.TenantID)
		return nil, err
	}
	cmd := exec.Command(p.target.Command, p.target.Args...) //nolint:noctx // it lives longer than the request that starts it; pipe ends it
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + searchPath, "HOME=" + dir, "TMPDIR=" + dir, "LANG=C.UTF-8"}
	for name, value := range p.target.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c := &pipe{p: p, cmd: cmd, dir: dir, stderr: &tail{}, exited: make(chan struct{}), closeRequested: make(chan struct{}), incoming: make(chan []byte)}
	cmd.Stderr = c.stderr
	// Wait does not wait for error output that a grandchild holds open.
	cmd.WaitDelay = time.Second
	var out io.ReadCloser
	if out, err = cmd.StdoutPipe(); err == nil {
		c.in, err = cmd.StdinPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_ = os.RemoveAll(dir) // of temporary files the system takes care as well
		p.m.processEnded(p.target.TenantID)
		return nil, fault.New(fault.Unavailable, codeUnreachable, "The MCP server %s cannot be started.", p.target.Name).Because(err)
	}
	if !p.m.spawn(func() { c.run(out) }) {
		c.kill(syscall.SIGKILL)
		c.run(out)
		return nil, errStopped
	}
	return c, nil
}

// pipe is the connection to a process.
type pipe struct {
	p      *process
	cmd    *exec.Cmd
	dir    string
	stderr *tail
	in     io.WriteCloser

	incoming       chan []byte
	exited         chan struct{} // its output ended, and it is dead
	closing        sync.Once
	closeRequested chan struct{} // we have no more to say

	writing sync.Mutex
}

// run reads the process's output to its end, then ends the process and
// everything that it started. It is not waited for before that, so that the
// number of its group is still its own.
func (c *pipe) run(out io.Reader) {
	defer close(c.exited)
	lines := bufio.NewReaderSize(out, 64<<10)
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
	c.kill(syscall.SIGKILL)
	err := c.cmd.Wait()
	_ = os.RemoveAll(c.dir) // of temporary files the system takes care as well
	c.p.m.processEnded(c.p.target.TenantID)
	c.p.m.Logger.Info("the process of an MCP server ended", "tenant", c.p.target.TenantID, "server", c.p.target.ServerID, "err", err, "said", c.stderr.String())
}

func (c *pipe) kill(signal syscall.Signal) {
	_ = syscall.Kill(-c.cmd.Process.Pid, signal) // that it is gone already is as good
}

// readLine reads a line of at most so many bytes.
func readLine(r *bufio.Reader, most int64) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if int64(len(line)+len(part)) > most {
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
			err = fmt.Errorf("a line that is no message: %w", err)
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

// Write implements sdk.Connection. A process that does not read its input is
// ended with the context, as there is no way back into a message that was half
// written.
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
		patience := time.NewTimer(stopGrace)
		defer patience.Stop()
		select {
		case <-written:
		case <-patience.C:
			c.kill(syscall.SIGKILL)
		}
	})
	defer stop()
	_, err = c.in.Write(append(data, '\n'))
	return err
}

// Close implements sdk.Connection: the process sees the end of its input, is
// asked to end, and is killed with all that it started.
func (c *pipe) Close() error {
	c.closing.Do(func() {
		close(c.closeRequested)
		c.in.Close()
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			wait := time.NewTimer(stopGrace)
			select {
			case <-c.exited:
				wait.Stop()
				return
			case <-wait.C:
				c.kill(signal)
			}
		}
	})
	<-c.exited
	return nil
}

// SessionID implements sdk.Connection.
func (c *pipe) SessionID() string { return "" }

// tail keeps the end of what is written to it.
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

// String is what was written last, on one line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return sentence(string(t.text), len(t.text))
}
