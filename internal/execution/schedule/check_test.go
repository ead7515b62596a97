package schedule_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/agents/agent"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/schedule"
)

// config reads a body as the operation does.
func config(body string) *schedule.Config {
	c, err := schema.Decode[schedule.Config]([]byte(body))
	if err != nil {
		panic(err)
	}
	return c
}

func fieldOf(text string) func(txn.Tx, *agent.Agent) error {
	return func(_ txn.Tx, g *agent.Agent) error {
		g.Schedule = []byte(text)
		return nil
	}
}

func TestCheckNamesEveryWrongField(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][]string{
		``:                                nil,
		`{"cron":"0 9 * * *"}`:            nil,
		`{"cron":"0 9 * * *","more":[1]}`: nil,
		`{}`:                              {"schedule.cron"},
		`{"cron":7}`:                      {"schedule.cron"},
		`{"cron":"x"}`:                    {"schedule.cron"},
		`{"cron":"0 9 * * *","timezone":"Mars/Base","input":{"message":7,"history":{}}}`: {
			"schedule.timezone", "schedule.input.message", "schedule.input.history",
		},
		`{"cron":"0 9 30 2 *","timezone":"Local"}`:        {"schedule.timezone", "schedule.cron"},
		`{"cron":"0 9 * * *","timezone":"right/UTC"}`:     {"schedule.timezone"},
		`{"cron":"0 9 * * *","timezone":"../etc/passwd"}`: {"schedule.timezone"},
		`{"cron":"0 9 * * *","enabled":"yes","max_concurrent_scheduled":0,"on_failure":"shout","misfire":"all","input":[],"autonomous_mode":1}`: {
			"schedule.enabled", "schedule.max_concurrent_scheduled", "schedule.on_failure", "schedule.misfire", "schedule.input", "schedule.autonomous_mode",
		},
	} {
		var got []string
		for _, f := range schedule.Check(schema.Nullable(body)) {
			got = append(got, f.Field)
			if f.Message == "" {
				t.Errorf("%s: %s without a message", body, f.Field)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
}
