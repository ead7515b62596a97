package client

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func readFrames(r io.Reader) ([]Frame, time.Duration, error) {
	f := NewFrames(r)
	var out []Frame
	for {
		frame, err := f.Next()
		if errors.Is(err, io.EOF) {
			return out, f.Retry(), nil
		}
		if err != nil {
			return out, f.Retry(), err
		}
		out = append(out, frame)
	}
}

func TestFrames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, in string
		want     []Frame
	}{
		{"one", "id: 1\nevent: llm.chunk\ndata: {\"text\":\"a\"}\n\n", []Frame{{"1", "llm.chunk", []byte(`{"text":"a"}`)}}},
		{"CRLF", "id:1\r\nevent:x\r\ndata:y\r\n\r\n", []Frame{{"1", "x", []byte("y")}}},
		{"CR", "id:1\revent:x\rdata:y\r\rdata:z\r\r", []Frame{{"1", "x", []byte("y")}, {"1", "", []byte("z")}}},
		{"byte order mark", "\ufeffdata: a\n\n", []Frame{{"", "", []byte("a")}}},
		{"only one byte order mark", "data: a\n\n\ufeffdata: b\n\n", []Frame{{"", "", []byte("a")}}},
		{"comments", ": hello\n\n: again\ndata: a\n: inside\n\n", []Frame{{"", "", []byte("a")}}},
		{"several lines", "data: a\ndata:\ndata:  b\n\n", []Frame{{"", "", []byte("a\n\n b")}}},
		{"empty data", "data\n\n", []Frame{{"", "", []byte{}}}},
		{"an event without data is none", "event: x\n\ndata: a\n\n", []Frame{{"", "", []byte("a")}}},
		{"the id stays", "id: 7\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", []Frame{{"7", "", []byte("a")}, {"7", "", []byte("b")}, {"", "", []byte("c")}}},
		{"an id with NUL is ignored", "id: 7\ndata: a\n\nid: 8\x00\ndata: b\n\n", []Frame{{"7", "", []byte("a")}, {"7", "", []byte("b")}}},
		{"unknown fields", "foo: bar\ndata: a\nDATA: b\n\n", []Frame{{"", "", []byte("a")}}},
		{"cut short", "data: a\n\ndata: b\n", []Frame{{"", "", []byte("a")}}},
		{"done", "data: [DONE]\n\n", []Frame{{"", "", []byte("[DONE]")}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for name, r := range map[string]io.Reader{
				"whole":        strings.NewReader(tt.in),
				"byte by byte": iotest.OneByteReader(strings.NewReader(tt.in)),
			} {
				got, _, err := readFrames(r)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
			}
		})
	}
}

func TestFramesRetry(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]time.Duration{
		"retry: 2000\n\n": 2 * time.Second, "retry: -1\n\n": 0, "retry: soon\n\n": 0, "retry: 99999999999\n\n": 0,
	} {
		if _, got, _ := readFrames(strings.NewReader(in)); got != want {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
}

// An event must be given when its last byte is there, not when the next one
// comes.
func TestFramesAreGivenAtOnce(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"\n", "\r", "\r\n"} {
		r, w := io.Pipe()
		go func() {
			io.WriteString(w, "data: a"+end+end)
		}()
		frame, err := NewFrames(r).Next()
		if err != nil || string(frame.Data) != "a" {
			t.Errorf("%q: %v, %v", end, frame, err)
		}
		r.Close()
	}
}

// endless is a stream that never ends its line.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestFramesAreBounded(t *testing.T) {
	t.Parallel()
	if _, _, err := readFrames(endless{}); !errors.Is(err, errFrameSize) {
		t.Errorf("an endless line: %v", err)
	}
	line := "data: " + strings.Repeat("x", 1<<20) + "\n"
	if _, _, err := readFrames(strings.NewReader(strings.Repeat(line, 20))); !errors.Is(err, errFrameSize) {
		t.Errorf("endless lines: %v", err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("id: 1\nevent: llm.chunk\ndata: {\"text\":\"a\"}\n\n: ping\n\nretry: 5\n"))
	f.Add([]byte("\xef\xbb\xbfdata\r\rid:\x00\r\ndata: [DONE]\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, retry, err := readFrames(bytes.NewReader(in))
		if err != nil {
			t.Fatalf("a short stream gave %v", err)
		}
		pieces, retryPieces, _ := readFrames(iotest.HalfReader(bytes.NewReader(in)))
		if diff := cmp.Diff(whole, pieces); diff != "" || retry != retryPieces {
			t.Fatalf("the events depend on how the bytes arrive:\n%s", diff)
		}
		for _, frame := range whole {
			if bytes.ContainsAny(frame.Data, "\r") || strings.ContainsAny(frame.Name+frame.ID, "\r\n") {
				t.Fatalf("a line ending is inside of %+v", frame)
			}
		}
	})
}
