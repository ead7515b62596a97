// Package extractor extracts the text of PDF and DOCX documents in processes of their
// own, one for each document, so that a document of a stranger costs a bounded amount
// of time and memory whatever its parser does: agentd starts itself with the argument
// of a child (Main), which reads the document from its standard input.
package extractor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"time"

	"agentd/internal/content/doctext"
	"agentd/internal/content/doctext/pdftext"
)

// childArg is the first argument of a process that extracts a text.
const childArg = "extract-text"

// Bounds of a child.
const (
	maxMemory  = 512 << 20 // bytes, beside the document
	maxStack   = 64 << 20
	maxTime    = 8 * time.Second // so that a request is answered within ten
	watchEvery = 5 * time.Millisecond
)

// Codes with which a child ends. Others mean that it broke down.
const (
	codeBroken = 10 + iota
	codeEncrypted
	codePages
	codeLong
	codeHeavy
)

var byCode = map[int]error{
	codeBroken: doctext.ErrBroken, codeEncrypted: doctext.ErrEncrypted, codePages: doctext.ErrPages, codeLong: doctext.ErrLong,
	codeHeavy: doctext.ErrHeavy,
}

// Text implements doctext.ParseFunc.
func Text(ctx context.Context, t doctext.Type, data []byte, limit int) (string, error) {
	return extract(ctx, maxTime, t, data, limit)
}

func extract(ctx context.Context, timeout time.Duration, t doctext.Type, data []byte, limit int) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(limited, self)
	cmd.Args = []string{"agentd", childArg, string(t), strconv.Itoa(limit)}
	cmd.Env = []string{"GOMAXPROCS=1", "GOTRACEBACK=none"} // nothing of ours
	cmd.Dir = os.TempDir()
	cmd.Stdin, cmd.Stdout = bytes.NewReader(data), &out
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case limited.Err() != nil:
		return "", doctext.ErrHeavy
	case errors.As(err, &ended):
		if known, ok := byCode[ended.ExitCode()]; ok {
			return "", known
		}
		return "", doctext.ErrBroken
	case err != nil:
		return "", err
	}
	return out.String(), nil
}

// Main extracts a text and ends the process if Text made it for that, and returns at
// once if not. main, and TestMain of tests that read documents, call it before anything
// else.
func Main() {
	if len(os.Args) != 4 || os.Args[1] != childArg {
		return
	}
	debug.SetMaxStack(maxStack)
	data, err := io.ReadAll(os.Stdin)
	limit, wrong := strconv.Atoi(os.Args[3])
	if err != nil || wrong != nil {
		os.Exit(codeBroken)
	}
	time.AfterFunc(maxTime, func() { os.Exit(codeHeavy) }) // where the parent cannot end this process any more
	go watchMemory(uint64(len(data)) + maxMemory)
	text, err := parse(doctext.Type(os.Args[2]), data, limit)
	for code, known := range byCode {
		if errors.Is(err, known) {
			os.Exit(code)
		}
	}
	if err == nil {
		_, err = os.Stdout.WriteString(text)
	}
	if err != nil {
		os.Exit(codeBroken)
	}
	os.Exit(0)
}

func parse(t doctext.Type, data []byte, limit int) (string, error) {
	switch t {
	case doctext.PDF:
		return pdftext.Text(data, limit)
	case doctext.DOCX:
		return doctext.DocxText(data, limit)
	}
	return "", doctext.ErrBroken
}

// watchMemory ends the process when its heap and stacks are too large.
func watchMemory(limit uint64) {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(watchEvery) {
		metrics.Read(sample)
		if sample[0].Value.Uint64()-sample[1].Value.Uint64() > limit {
			os.Exit(codeHeavy)
		}
	}
}
