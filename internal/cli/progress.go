package cli

import (
	"fmt"
	"io"
)

// progress shows on a terminal how far long work has come, on one line that is
// written over and over.
type progress struct {
	inv         *invocation
	done, total int
	shown       bool
}

func (inv *invocation) newProgress(total int) *progress {
	return &progress{inv: inv, total: total}
}

func (p *progress) step(what string) {
	p.done++
	if !p.inv.stderrTerminal || p.total < 2 {
		return
	}
	p.show(fmt.Sprintf("%d of %d: %s", p.done, p.total, cutWidth(oneLine(what), 60)))
}

// show shows a line in place of the last one.
func (p *progress) show(line string) {
	p.end()
	fmt.Fprint(p.inv.stderr, line)
	p.shown = true
}

// end takes the line away.
func (p *progress) end() {
	if p.shown {
		fmt.Fprint(p.inv.stderr, "\r\x1b[K")
		p.shown = false
	}
}

// reading returns the reader of a file, which shows how much of it was read.
func (p *progress) reading(from io.Reader, size int64, what string) io.Reader {
	if !p.inv.stderrTerminal {
		return from
	}
	return &watchedReader{from: from, size: size, what: what, progress: p, percent: -1}
}

// watchedReader is a file whose progress is shown.
type watchedReader struct {
	from     io.Reader
	size     int64
	what     string
	progress *progress

	read    int64
	percent int64 // as it was shown last
}

// Read implements io.Reader.
func (r *watchedReader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	r.read += int64(n)
	if percent := r.read * 100 / r.size; percent != r.percent {
		r.percent = percent
		r.progress.show(fmt.Sprintf("%3d %% of %d MiB: %s", percent, r.size>>20, cutWidth(oneLine(r.what), 50)))
	}
	return n, err
}
