package tool

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A result that is too long for the conversation is stored whole in a file of the
// run, and the result for the model names the file.
func TestLongResults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, id, output string
		failed           bool
		want             Result
	}{
		{"fits", "call_1", "01234567", false, Result{Output: "01234567"}},
		{
			"text", "call_1", "0123456ä9 and so on", false, Result{
				Output: "0123456\n[cut off: the result has 20 bytes, of which these are the first 7; all of it is in this run's artifact talks-call_1.txt]",
				Files:  []File{{Name: "talks-call_1.txt", MimeType: "text/plain; charset=utf-8", Data: []byte("0123456ä9 and so on")}},
			},
		},
		{
			"json", "../../\x00evil id\n", `{"a":"0123456789"}`, false, Result{
				Output: `{"a":"01` + "\n[cut off: the result has 18 bytes, of which these are the first 8; all of it is in this run's artifact talks-evilid.json]",
				Files:  []File{{Name: "talks-evilid.json", MimeType: "application/json", Data: []byte(`{"a":"0123456789"}`)}},
			},
		},
		{
			"failure", strings.Repeat("x", 100), "no such thing at all", true, Result{
				Output: "no such \n[cut off: the result has 20 bytes, of which these are the first 8; all of it is in this run's artifact talks-" + strings.Repeat("x", 64) + ".txt]",
				Files:  []File{{Name: "talks-" + strings.Repeat("x", 64) + ".txt", MimeType: "text/plain; charset=utf-8", Data: []byte("no such thing at all")}},
				Failed: true,
			},
		},
		{
			"no_text", "c", strings.Repeat("\x80", 10), false, Result{
				Output: "\uFFFD" + "\n[cut off: the result has 10 bytes, of which these are the first 8; all of it is in this run's artifact talks-c.txt]",
				Files:  []File{{Name: "talks-c.txt", MimeType: "text/plain; charset=utf-8", Data: []byte(strings.Repeat("\x80", 10))}},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := set(t, Limits{Output: 8}, Tool{Name: "talks", Run: func(context.Context, Call) (Result, error) {
				return Result{Output: c.output, Failed: c.failed}, nil
			}})
			got, err := s.Call(t.Context(), Call{Name: "talks", ID: c.id})
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// The memory that a result takes is bounded, however long it is.
func TestHugeResult(t *testing.T) {
	s := set(t, Limits{}, Tool{Name: "floods", Run: func(context.Context, Call) (Result, error) {
		return Result{Output: strings.Repeat("flood ", 100<<20/6)}, nil
	}})
	got, err := s.Call(t.Context(), Call{Name: "floods", ID: "c"})
	if err != nil || len(got.Files) != 1 || len(got.Files[0].Data) != MaxFile {
		t.Fatalf("%v, %d files", err, len(got.Files))
	}
	if len(got.Output) > 65<<10 || !strings.Contains(got.Output, "the first 52428800 are in this run's artifact floods-c.txt") {
		t.Errorf("%d bytes, which end with %q", len(got.Output), got.Output[len(got.Output)-200:])
	}
	got.Files = nil
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 40<<20 {
		t.Errorf("%d MiB are in memory for a result that was cut", m.HeapAlloc>>20)
	}
	runtime.KeepAlive(got)
}

func TestFilesOfACallAreBounded(t *testing.T) {
	t.Parallel()
	s := set(t, Limits{}, Tool{Name: "draws", Run: func(context.Context, Call) (Result, error) {
		files := []File{{Name: "big", Data: make([]byte, MaxFile+1)}}
		for range 50 {
			files = append(files, File{Name: "small", Data: []byte("x")})
		}
		return Result{Output: "done", Files: files}, nil
	}})
	got, err := s.Call(t.Context(), Call{Name: "draws"})
	if err != nil || len(got.Files) != maxFiles || got.Files[0].Name != "small" {
		t.Errorf("%v, %d files", err, len(got.Files))
	}
}
