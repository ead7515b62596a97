package main

import (
	"strings"
	"testing"
	"time"
)

// What passes is one line; what fails is there in full, and named at the end.
func TestReport(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, events string
		ok           bool
		want         []string
		never        string
	}{
		{
			name: "pass", ok: true,
			events: `{"Action":"output","Package":"agentd/internal/a","Test":"TestA","Output":"noise\n"}
{"Action":"pass","Package":"agentd/internal/a","Test":"TestA","Elapsed":1}
{"Action":"skip","Package":"agentd/internal/a","Test":"TestB"}
{"Action":"output","Package":"agentd/internal/a","Output":"ok  \tagentd/internal/a\t(cached)\n"}
{"Action":"pass","Package":"agentd/internal/a","Elapsed":1.5}
{"Action":"output","Package":"agentd/cmd","Output":"?   \tagentd/cmd\t[no test files]\n"}
{"Action":"skip","Package":"agentd/cmd"}`,
			want:  []string{"ok    internal/a 1.5s (cached)", "PASS: 1 tests passed, 1 skipped in 1 packages (1 cached), 2s"},
			never: "noise",
		},
		{
			name: "fail",
			events: `{"Action":"output","Package":"agentd/internal/a","Test":"TestA/deep","Output":"    a_test.go:1: why\n"}
{"Action":"fail","Package":"agentd/internal/a","Test":"TestA/deep"}
{"Action":"fail","Package":"agentd/internal/a","Test":"TestA"}
{"Action":"fail","Package":"agentd/internal/a","Elapsed":0.5}`,
			want: []string{"a_test.go:1: why", "FAIL  internal/a 0.5s", "FAIL: a.TestA/deep; 0 tests passed"},
		},
		{
			name: "parallel subtests", ok: true,
			events: `{"Action":"pass","Package":"agentd/internal/a","Test":"TestA/one/deep","Elapsed":3}
{"Action":"pass","Package":"agentd/internal/a","Test":"TestA/one","Elapsed":0}
{"Action":"pass","Package":"agentd/internal/a","Test":"TestA/two","Elapsed":1}
{"Action":"pass","Package":"agentd/internal/a","Test":"TestA","Elapsed":0}
{"Action":"pass","Package":"agentd/internal/a","Test":"TestB","Elapsed":2}`,
			want:  []string{"4.0s a.TestA\n"},
			never: "a.TestB",
		},
		{
			name: "panic",
			events: `{"Action":"output","Package":"agentd/internal/a","Test":"TestA","Output":"goroutine 1\n"}
{"Action":"fail","Package":"agentd/internal/a","Elapsed":0.5}`,
			want: []string{"goroutine 1", "FAIL: a.TestA; "},
		},
		{
			name: "build",
			events: `{"Action":"build-output","ImportPath":"agentd/internal/a","Output":"a.go:1: undefined\n"}
{"Action":"build-fail","ImportPath":"agentd/internal/a"}
{"Action":"fail","Package":"agentd/internal/a","FailedBuild":"agentd/internal/a"}
not an event`,
			want: []string{"a.go:1: undefined", "not an event", "FAIL: internal/a; "},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			r := newReport(&out)
			if err := r.read(strings.NewReader(tt.events)); err != nil {
				t.Fatal(err)
			}
			r.finish(tt.ok, 2*time.Second, 1)
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is missing in\n%s", want, out.String())
				}
			}
			if tt.never != "" && strings.Contains(out.String(), tt.never) {
				t.Errorf("%q is in\n%s", tt.never, out.String())
			}
		})
	}
}
