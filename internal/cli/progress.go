package cli

import "fmt"

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
	p.end()
	fmt.Fprintf(p.inv.stderr, "%d of %d: %s", p.done, p.total, cutWidth(oneLine(what), 60))
	p.shown = true
}

// end takes the line away.
func (p *progress) end() {
	if p.shown {
		fmt.Fprint(p.inv.stderr, "\r\x1b[K")
		p.shown = false
	}
}
