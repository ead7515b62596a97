package workspace

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

// Terminals that are open on a node at once: each has processes and a directory in memory.
const (
	maxTerminals          = 8
	maxCompanyTerminals   = 4
	maxWorkspaceTerminals = 2
)

// Shell is a shell that is to run at a terminal, on copies of files.
type Shell struct {
	Dir        string // it begins in, a clean path
	Cols, Rows uint16
	CPU        time.Duration // of one process
	MemoryMiB  int           // of one process
	Files      []File
	// Open opens the content of one of Files.
	Open func(context.Context, File) (io.ReadCloser, error)
	// Changed is called with each file that was written, and Deleted with each that is
	// gone, when the files are handed over; then Saved, unless the shell has ended. They are
	// called by one goroutine.
	Changed func(ctx context.Context, path string, content io.Reader) error
	Deleted func(ctx context.Context, path string) error
	Saved   func()
}

// Screen is a shell at its terminal.
type Screen interface {
	io.Reader // what it shows; io.EOF once nothing has the terminal open
	io.Writer // what is typed; fails if that is not read in time
	io.Closer // releases the terminal, after Ended
	Resize(cols, rows uint16) error
	// Save asks for the files, and reports whether they will come: not while they come.
	Save() bool
	// HangUp ends the shell with everything that it started, within seconds.
	HangUp()
	// Ended is closed once the shell has ended and its files were handed over.
	Ended() <-chan struct{}
	// ExitCode is how it ended, once it has; an error: its files could not be handed over.
	ExitCode() (int, error)
}

// TerminalOpener starts shells that cannot reach anything but copies of files.
type TerminalOpener interface {
	// Ready returns fault.Unsupported where the machine cannot confine programs.
	Ready() error
	// OpenTerminal starts a shell; its caller hangs it up or waits for its end, and closes it.
	OpenTerminal(ctx context.Context, s *Shell) (Screen, error)
}

// Terminals are the terminals of a node. Use one for all workspaces.
type Terminals struct {
	Workspaces *Service
	Opener     TerminalOpener

	mu   sync.Mutex
	all  int
	each map[string]int // by tenant, and by workspace
}

// enter counts a terminal until leave is called. Errors: fault.Limited, fault.Unavailable.
func (ts *Terminals) enter(tenant, workspace string) (leave func(), err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	limited := func(format string, n int) error {
		e := fault.New(fault.Limited, "TERMINAL_LIMIT", format, n)
		e.RetryAfter = time.Minute
		return e
	}
	switch {
	case ts.each[workspace] >= maxWorkspaceTerminals:
		return nil, limited("The workspace has %d terminals open on this server, which is the limit; close one.", maxWorkspaceTerminals)
	case ts.each[tenant] >= maxCompanyTerminals:
		return nil, limited("Your company has %d terminals open on this server, which is the limit; close one.", maxCompanyTerminals)
	case ts.all >= maxTerminals:
		e := fault.New(fault.Unavailable, "", "This server has as many terminals open as it can hold; retry in a minute.")
		e.RetryAfter = time.Minute
		return nil, e
	}
	if ts.each == nil {
		ts.each = map[string]int{}
	}
	ts.count(tenant, workspace, 1)
	return func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		ts.count(tenant, workspace, -1)
	}, nil
}

func (ts *Terminals) count(tenant, workspace string, n int) {
	ts.all += n
	for _, of := range []string{tenant, workspace} {
		if ts.each[of] += n; ts.each[of] == 0 {
			delete(ts.each, of)
		}
	}
}

// On returns FEATURE_DISABLED unless the operator allows terminals.
func (ts *Terminals) On() error {
	if p := ts.Workspaces.Commands.Policy(); p.Enabled && p.Terminal {
		return nil
	}
	return fault.New(fault.Forbidden, "FEATURE_DISABLED", "The operator of this service has not switched on terminals in workspaces.")
}

// MayOpen returns why no terminal can be opened in a workspace. Errors:
// fault.NotFound; FEATURE_DISABLED; fault.Unsupported.
func (ts *Terminals) MayOpen(ctx context.Context, who authz.Caller, id string) error {
	if err := ts.Workspaces.Check(ctx, who.TenantID, id); err != nil {
		return err
	}
	if err := ts.On(); err != nil {
		return err
	}
	return ts.Opener.Ready()
}

// TakenOver is what a workspace took over from a terminal.
type TakenOver struct {
	Changed int              `json:"changed_files"`
	Deleted int              `json:"deleted_files"`
	Refused []CommandRefusal `json:"refused_files"`
}

// TerminalSpec says which terminal to open.
type TerminalSpec struct {
	Dir        string // it begins in
	Cols, Rows uint16
	Saved      func(TakenOver) // called when the files were handed over while the shell goes on
}

// Terminal is an open terminal of a workspace.
type Terminal struct {
	Screen
	h       *harvest
	leave   func()
	opened  time.Time
	in, out atomic.Int64
}

// Open opens a terminal on a copy of a workspace's files. The caller calls End.
// Errors: those of MayOpen; fault.Limited where too many are open; fault.Invalid;
// WORKSPACE_TOO_LARGE.
func (ts *Terminals) Open(ctx context.Context, who authz.Caller, id string, spec TerminalSpec) (*Terminal, error) {
	if err := ts.MayOpen(ctx, who, id); err != nil {
		return nil, err
	}
	s := ts.Workspaces
	dir, problem := clean(spec.Dir)
	if problem != "" {
		return nil, fault.BadFields(fault.Field{Field: "workdir", Message: problem})
	}
	all, err := s.Table.ListFiles(ctx, who.TenantID, id, "", MaxFiles)
	if err != nil {
		return nil, err
	}
	files, err := commandFiles(all, dir)
	if err != nil {
		return nil, err
	}
	leave, err := ts.enter(who.TenantID, id)
	if err != nil {
		return nil, err
	}
	t := &Terminal{h: newHarvest(s, who, id, files), leave: leave, opened: s.Clock.Now()}
	policy := s.Commands.Policy()
	err = t.h.record(ctx, "workspace.terminal_opened", nil)
	if err == nil {
		t.Screen, err = ts.Opener.OpenTerminal(ctx, &Shell{
			Dir: dir, Cols: spec.Cols, Rows: spec.Rows, CPU: policy.MaxTime, MemoryMiB: policy.MemoryMiB, Files: files,
			Open: t.h.open, Changed: t.h.take, Deleted: t.h.remove,
			Saved: func() {
				saved := t.taken()
				t.h.result = newResult()
				spec.Saved(saved)
			},
		})
	}
	if err != nil {
		leave()
		return nil, err
	}
	return t, nil
}

// Read reads what the shell shows.
func (t *Terminal) Read(p []byte) (int, error) {
	n, err := t.Screen.Read(p)
	t.out.Add(int64(n))
	return n, err
}

// Write types.
func (t *Terminal) Write(p []byte) (int, error) {
	n, err := t.Screen.Write(p)
	t.in.Add(int64(n))
	return n, err
}

func (t *Terminal) taken() TakenOver {
	r := t.h.result
	return TakenOver{len(r.Changed), len(r.Deleted), r.Refused[:min(len(r.Refused), maxTerminalRefused)]}
}

// maxTerminalRefused keeps frames small.
const maxTerminalRefused = 20

// TerminalEnd is how a terminal ended.
type TerminalEnd struct {
	ExitCode int
	Taken    TakenOver
	Lost     bool // the files could not be handed over
}

// terminalRecord is what the audit log keeps of a terminal: not what was typed.
type terminalRecord struct {
	Reason   string `json:"reason"`
	ExitCode int    `json:"exit_code"`
	Seconds  int64  `json:"seconds"`
	BytesIn  int64  `json:"bytes_in"`
	BytesOut int64  `json:"bytes_out"`
	Lost     string `json:"lost,omitzero"`
}

// End ends the terminal once the shell has ended, or else ends the shell first; the reason
// is for the audit log. shown is closed when all that was shown has been read.
func (t *Terminal) End(ctx context.Context, reason string, shown <-chan struct{}) (TerminalEnd, error) {
	defer t.leave()
	t.HangUp()
	<-t.Ended()
	select {
	case <-shown:
	case <-time.After(shownTime): // a client that does not read
	}
	_ = t.Close() // nothing is in it
	code, err := t.ExitCode()
	end := TerminalEnd{ExitCode: code, Taken: t.taken(), Lost: err != nil}
	r := terminalRecord{
		Reason: reason, ExitCode: code, Seconds: int64(t.h.s.Clock.Now().Sub(t.opened).Seconds()), BytesIn: t.in.Load(), BytesOut: t.out.Load(),
	}
	if err != nil {
		r.Lost = "its files could not be handed over"
	}
	details, failed := json.Marshal(r)
	if failed == nil {
		failed = t.h.record(ctx, "workspace.terminal_ended", details)
	}
	if failed == nil {
		failed = err
	}
	return end, failed
}

// shownTime is how long the last that was shown is waited for.
const shownTime = 5 * time.Second

// record writes an audit entry on the workspace.
func (h *harvest) record(ctx context.Context, action string, details []byte) error {
	return h.s.Writer.Write(ctx, func(tx txn.Tx) error {
		return audit.Write(h.s.Audit, tx, h.who, audit.Entry{Action: action, TargetType: "workspace", TargetID: h.id, Details: details})
	})
}
