package apptest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// OpenStream opens an event stream and leaves it open.
func (n *Server) OpenStream(t *testing.T, path string, headers ...string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", n.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := HTTPClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
	}
	return resp
}

// Frame is a server-sent event.
type Frame struct {
	ID, Name, Data string
}

func (f Frame) String() string { return f.ID + " " + f.Name }

// Object decodes the data of the frame.
func (f Frame) Object(t testing.TB) Object {
	t.Helper()
	var o Object
	if err := json.Unmarshal([]byte(f.Data), &o); err != nil {
		t.Fatalf("%s: %v: %s", f, err, f.Data)
	}
	return o
}

// ReadStream returns the frames of an event stream, until its end or until enough
// returns true.
func (n *Server) ReadStream(path, lastID string, enough func(Frame) bool) []Frame {
	n.T.Helper()
	ctx, cancel := context.WithTimeout(n.T.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", n.URL+path, nil)
	if err != nil {
		n.T.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+n.Key)
	req.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := HTTPClient.Do(req)
	if err != nil {
		n.T.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		n.T.Fatalf("%s: %s, %s", path, resp.Status, resp.Header.Get("Content-Type"))
	}
	var all []Frame
	err = ReadFrames(resp.Body, func(f Frame) bool {
		all = append(all, f)
		return enough == nil || !enough(f)
	})
	if err != nil {
		n.T.Fatalf("%s after %v: %v", path, all, err)
	}
	return all
}

// ReadFrames calls each with every frame until it returns false or the stream
// ends.
func ReadFrames(r io.Reader, each func(Frame) bool) error {
	var f Frame
	in := bufio.NewScanner(r)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		field, value, _ := strings.Cut(in.Text(), ": ")
		switch {
		case in.Text() == "":
			if f.Data != "" && !each(f) {
				return nil
			}
			f = Frame{}
		case field == "id":
			f.ID = value
		case field == "event":
			f.Name = value
		case field == "data":
			f.Data += value
		case field == "retry" || field == "":
		default:
			return fmt.Errorf("a line that is no field: %q", in.Text())
		}
	}
	return in.Err()
}

// FrameNames returns the names of frames; equal ones that follow each other are one.
func FrameNames(frames []Frame) (out []string) {
	for _, f := range frames {
		name := f.Name
		if name == "" {
			name = f.Data
		}
		if len(out) == 0 || out[len(out)-1] != name {
			out = append(out, name)
		}
	}
	return out
}

// ChunkText returns the joined text of a stream's chunks.
func ChunkText(t testing.TB, frames []Frame) string {
	t.Helper()
	var b strings.Builder
	for _, f := range frames {
		if f.Name == "llm.chunk" {
			b.WriteString(f.Object(t)["text"].(string))
		}
	}
	return b.String()
}

// FrameIDs returns "id name" of each frame.
func FrameIDs(frames []Frame) (out []string) {
	for _, f := range frames {
		out = append(out, f.String())
	}
	return out
}
