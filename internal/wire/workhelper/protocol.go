package workhelper

import (
	"archive/tar"
	"bytes"
	"io"
	"sync"
	"time"
)

// The one argument of a helper: for a command, and for a shell at a terminal.
const (
	CommandArg  = "workspace-command"
	TerminalArg = "workspace-terminal"
)

// SaveOrder is what the helper of a terminal is sent when it shall hand over the files and
// go on. The end of what it is sent ends the shell.
const SaveOrder = 's'

// Names of what is sent beside files, which begin with FilePrefix.
const (
	HeadName   = "head"
	FilePrefix = "f/"
)

// Request is what the helper receives before the files.
type Request struct {
	Argv      []string `json:"argv"`
	Dir       string   `json:"dir"`
	TimeoutMS int64    `json:"timeout_ms"`
	MaxOutput int      `json:"max_output"`
}

// Answer is what the helper says.
type Answer struct {
	Failed    string   `json:"failed"`
	Output    []byte   `json:"output"`
	Truncated bool     `json:"truncated"`
	ExitCode  int      `json:"exit_code"`
	TimedOut  bool     `json:"timed_out"`
	Same      []string `json:"same"` // files that are as they were sent
	More      bool     `json:"more"` // of a terminal: it goes on
}

// WriteEntry sends a file, or a head.
func WriteEntry(out *tar.Writer, name string, size int64, written time.Time, content io.Reader) error {
	head := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: written, Format: tar.FormatPAX}
	if err := out.WriteHeader(head); err != nil {
		return err
	}
	_, err := io.CopyN(out, content, size)
	return err
}

// Bounded keeps the first bytes that are written to it. It is no bytes.Buffer, whose
// ReadFrom would keep all.
type Bounded struct {
	Limit int // 0: 4 KiB

	mu   sync.Mutex
	kept []byte
	more bool
}

// Write implements io.Writer.
func (b *Bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	limit := b.Limit
	if limit == 0 {
		limit = 4 << 10
	}
	room := max(0, limit-len(b.kept))
	b.more = b.more || len(p) > room
	b.kept = append(b.kept, p[:min(len(p), room)]...)
	return len(p), nil
}

// Kept returns what was kept, and whether there was more.
func (b *Bounded) Kept() (text []byte, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.kept), b.more
}
