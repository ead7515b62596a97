package sse

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

type event struct {
	ID, Name, Data string
}

const maxEvent = 1 << 20

// readAll returns all events of a stream, and how long it asked to wait before a
// reconnection.
func readAll(src io.Reader, keepLast bool) (out []event, retry time.Duration, err error) {
	r := NewReader(src, maxEvent)
	r.KeepLast = keepLast
	for {
		data, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, r.Retry(), nil
		}
		if err != nil {
			return out, r.Retry(), err
		}
		out = append(out, event{r.ID(), r.Name(), string(data)})
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, in string
		want     []event
	}{
		{"one", "id: 1\nevent: llm.chunk\ndata: {\"text\":\"a\"}\n\n", []event{{"1", "llm.chunk", `{"text":"a"}`}}},
		{"CRLF", "id:1\r\nevent:x\r\ndata:y\r\n\r\n", []event{{"1", "x", "y"}}},
		{"CR", "id:1\revent:x\rdata:y\r\rdata:z\r\r", []event{{"1", "x", "y"}, {"1", "", "z"}}},
		{"byte order mark", "\ufeffdata: a\n\n", []event{{"", "", "a"}}},
		{"only one byte order mark", "data: a\n\n\ufeffdata: b\n\n", []event{{"", "", "a"}}},
		{"comments", ": hello\n\n: again\ndata: a\n: inside\n\n", []event{{"", "", "a"}}},
		{"several lines", "data: a\ndata:\ndata:  b\n\n", []event{{"", "", "a\n\n b"}}},
		{"empty data", "data\n\n", []event{{"", "", ""}}},
		{"an event without data is none", "event: x\n\ndata: a\n\n", []event{{"", "", "a"}}},
		{"the id stays", "id: 7\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", []event{{"7", "", "a"}, {"7", "", "b"}, {"", "", "c"}}},
		{"an id with NUL is ignored", "id: 7\ndata: a\n\nid: 8\x00\ndata: b\n\n", []event{{"7", "", "a"}, {"7", "", "b"}}},
		{"unknown fields", "foo: bar\ndata: a\nDATA: b\n\n", []event{{"", "", "a"}}},
		{"cut short", "data: a\n\ndata: b\n", []event{{"", "", "a"}}},
		{"done", "data: [DONE]\n\n", []event{{"", "", "[DONE]"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for name, r := range map[string]io.Reader{
				"whole":        strings.NewReader(tt.in),
				"byte by byte": iotest.OneByteReader(strings.NewReader(tt.in)),
			} {
				got, _, err := readAll(r, false)
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

func TestRetry(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]time.Duration{
		"retry: 2000\n\n": 2 * time.Second, "retry: -1\n\n": 0, "retry: soon\n\n": 0, "retry: 99999999999\n\n": 0,
	} {
		if _, got, _ := readAll(strings.NewReader(in), false); got != want {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
}

func TestIncompleteEvents(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]event{
		"data: a\n\ndata: b\n":       {{Data: "a"}, {Data: "b"}},
		"data: a\n\ndata: b":         {{Data: "a"}, {Data: "b"}},
		"event: x\ndata: b\r":        {{Name: "x", Data: "b"}},
		"data: a\ndata: b":           {{Data: "a\nb"}},
		"data: a\n\nevent: x\nid: 1": {{Data: "a"}},
	} {
		r := NewReader(strings.NewReader(in), maxEvent)
		r.KeepLast = true
		var got []event
		for {
			data, err := r.Next()
			if err != nil {
				break
			}
			got = append(got, event{r.ID(), r.Name(), string(data)})
			if complete := string(data) == "a"; r.Incomplete() == complete {
				t.Errorf("%q: event %q: incomplete is %v", in, data, r.Incomplete())
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", in, diff)
		}
	}
}

// An event is returned when its last byte is there, not when the next one comes.
func TestEventsAreReturnedAtOnce(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"\n", "\r", "\r\n"} {
		r, w := io.Pipe()
		go func() {
			io.WriteString(w, "data: a"+end+end)
		}()
		data, err := NewReader(r, maxEvent).Next()
		if err != nil || string(data) != "a" {
			t.Errorf("%q: %q, %v", end, data, err)
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

func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	if _, _, err := readAll(endless{}, false); !errors.Is(err, ErrTooLong) {
		t.Errorf("an endless line: %v", err)
	}
	line := "data: " + strings.Repeat("x", 1<<16) + "\n"
	if _, _, err := readAll(strings.NewReader(strings.Repeat(line, 20)), false); !errors.Is(err, ErrTooLong) {
		t.Errorf("endless lines: %v", err)
	}
	if got, _, err := readAll(strings.NewReader(strings.Repeat(line+"\n", 20)), false); err != nil || len(got) != 20 {
		t.Errorf("many events: %d, %v", len(got), err)
	}
}

// A body that turns out to be no stream is read as a whole.
func TestPeekAndRest(t *testing.T) {
	t.Parallel()
	r := NewReader(iotest.OneByteReader(strings.NewReader("\ufeff \r\n{\"a\": 1}\n")), maxEvent)
	if first, err := r.Peek(); err != nil || first != '{' {
		t.Fatalf("the first byte is %q, %v", first, err)
	}
	if body, err := r.Rest(); err != nil || string(body) != "{\"a\": 1}\n" {
		t.Errorf("the rest is %q, %v", body, err)
	}
}

// A reader that is reset keeps nothing of the stream before.
func TestReset(t *testing.T) {
	t.Parallel()
	r := NewReader(strings.NewReader("retry: 5\nid: 7\nevent: x\ndata: a\r"), maxEvent)
	r.KeepLast = true
	if _, err := r.Next(); err != nil || !r.Incomplete() {
		t.Fatal(err, r.Incomplete())
	}
	r.Reset(strings.NewReader("\ufeffdata: b\n\ndata: c\n"), maxEvent)
	data, err := r.Next()
	if err != nil || string(data) != "b" || r.ID() != "" || r.Name() != "" || r.Retry() != 0 || r.Incomplete() {
		t.Errorf("%q, %v, id %q, name %q, retry %v", data, err, r.ID(), r.Name(), r.Retry())
	}
	if data, err := r.Next(); err != io.EOF {
		t.Errorf("an event without its blank line: %q, %v", data, err)
	}
}

// plainly parses a stream that is there as a whole, in the words of the standard.
func plainly(in string) (out []event) {
	in = strings.TrimPrefix(in, "\ufeff")
	lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(in, "\r\n", "\n"), "\r", "\n"), "\n")
	var e event
	var data []string
	for _, line := range lines[:len(lines)-1] { // what has no ending is no line
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if data != nil {
				e.Data = strings.Join(data, "\n")
				out = append(out, e)
			}
			data, e.Name = nil, ""
		case field == "data":
			data = append(data, value)
		case field == "event":
			e.Name = value
		case field == "id" && !strings.Contains(value, "\x00"):
			e.ID = value
		}
	}
	return out
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("id: 1\nevent: llm.chunk\ndata: {\"text\":\"a\"}\n\n: ping\n\nretry: 5\n"))
	f.Add([]byte("\xef\xbb\xbfdata\r\rid:\x00\r\ndata: [DONE]\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, retry, err := readAll(bytes.NewReader(in), false)
		if err != nil {
			t.Fatalf("a short stream: %v", err)
		}
		if diff := cmp.Diff(plainly(string(in)), whole); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		pieces, retryPieces, _ := readAll(iotest.OneByteReader(bytes.NewReader(in)), false)
		if diff := cmp.Diff(whole, pieces); diff != "" || retry != retryPieces {
			t.Fatalf("the events depend on how the bytes arrive:\n%s", diff)
		}
		kept, _, err := readAll(iotest.HalfReader(bytes.NewReader(in)), true)
		if err != nil || len(kept) < len(whole) || len(kept) > len(whole)+1 {
			t.Fatalf("%d events with the last one kept, %d without, %v", len(kept), len(whole), err)
		}
		if diff := cmp.Diff(whole, kept[:len(whole):len(whole)]); len(whole) > 0 && diff != "" {
			t.Fatalf("the events before the last differ:\n%s", diff)
		}
	})
}
