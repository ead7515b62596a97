package run_test

import (
	"testing"

	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
)

// Where a run came from is what made it says, and nothing else that callers
// write: what is counted by it must not grow without bounds.
func TestSource(t *testing.T) {
	t.Parallel()
	session := "s"
	for _, tt := range []struct {
		metadata string
		session  *string
		want     string
	}{
		{`{}`, nil, "api"},
		{``, nil, "api"},
		{`{"source":"schedule","schedule_fire":"x"}`, nil, "schedule"},
		{`{"source":"chat_completions"}`, nil, "chat_completions"},
		{`{"source":"todo"}`, &session, "todo"},
		{`{"source":"my own"}`, nil, "api"},
		{`{"source":"my own"}`, &session, "session"},
		{`{"source":{"a":1}}`, nil, "api"},
		{`{"other":1}`, &session, "session"},
	} {
		r := run.Record{Run: run.Run{Metadata: schema.Object(tt.metadata), SessionID: tt.session}}
		if got := r.Source(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.metadata, got, tt.want)
		}
	}
}
