package app

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/kernel/model"
)

func TestModelFailuresAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		f := &modelFailures{log: slog.New(slog.NewTextHandler(&out, nil)), clock: clock.System{}, seen: map[failureKind]*failureCount{}}
		fail := func(c model.Call) string {
			out.Reset()
			f.observe(c)
			return out.String()
		}
		refused := &model.Error{Code: "model_error", Status: 404, Detail: "Not known.", Cause: errors.New("endpoint: no such model")}
		mine := &model.Target{Provider: "default", Model: "llama"}
		theirs := &model.Target{Provider: "custom", Model: "x", Guarded: true}
		for _, tt := range []struct {
			name string
			call model.Call
			want []string // nil: not logged
		}{
			{"refused", model.Call{Target: mine, Outcome: model.CallRefused, Err: refused},
				[]string{"level=WARN", "a model call failed", "model=llama", `detail="Not known."`, "no such model"}},
			{"again", model.Call{Target: mine, Outcome: model.CallRefused, Err: refused}, nil},
			{"of a tenant", model.Call{Target: theirs, Outcome: model.CallFailed, Err: refused}, []string{"level=INFO", "provider=custom"}},
			{"too long", model.Call{Target: mine, Outcome: model.CallRefused, Err: &model.Error{Code: model.CodeContextLength}}, nil},
			{"cancelled", model.Call{Target: mine, Outcome: model.CallCancelled}, nil},
			{"done", model.Call{Target: mine, Outcome: model.CallDone}, nil},
		} {
			got := fail(tt.call)
			if tt.want == nil && got != "" {
				t.Errorf("%s is logged: %s", tt.name, got)
			}
			for _, text := range tt.want {
				if !strings.Contains(got, text) {
					t.Errorf("%s: %q is missing in %s", tt.name, text, got)
				}
			}
		}
		time.Sleep(failureQuiet)
		if got := fail(model.Call{Target: mine, Outcome: model.CallRefused, Err: refused}); !strings.Contains(got, "repeated=1") {
			t.Errorf("a minute later: %s", got)
		}
	})
}
