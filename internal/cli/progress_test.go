package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// TestProgressOfUploads: a terminal shows how much of a file was sent, anything else
// shows nothing.
func TestProgressOfUploads(t *testing.T) {
	t.Parallel()
	for _, terminal := range []bool{true, false} {
		var shown bytes.Buffer
		inv := &invocation{stderr: &shown, stderrTerminal: terminal}
		p := inv.newProgress(1)
		const size = 4 << 20
		n, err := io.Copy(io.Discard, p.reading(strings.NewReader(strings.Repeat("x", size)), size, "large.pdf"))
		p.end()
		if err != nil || n != size {
			t.Fatalf("%d bytes were read, %v", n, err)
		}
		if all := shown.String(); strings.Contains(all, "\r\x1b[K 50 % of 4 MiB: large.pdf") != terminal || strings.HasSuffix(all, "\r\x1b[K") != terminal {
			t.Errorf("terminal %v: %.300q", terminal, all)
		}
	}
}
