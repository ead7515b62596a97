package schedule_test

import (
	"reflect"
	"testing"

	"agentd/internal/base/difftag"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/schedule"
)

func TestEveryFieldSaysWhetherItRestarts(t *testing.T) {
	t.Parallel()
	for _, name := range difftag.Undecided(schedule.RestartTag, reflect.TypeFor[schedule.Config]()) {
		t.Errorf("Config.%s does not say whether a change of it restarts a paused schedule: add the tag restarts:\"false\", "+
			"or \"true\" if it decides when runs start or what they do", name)
	}
}

// A change of a field that does not restart the schedule keeps what the
// schedule has come to; a change of another field does not.
func TestAChangeThatDoesNotRestart(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		r.KeepOnChange(func(c *schedule.Config) { c.ReflectionPrompt = "" })
		id := r.agent(`{"cron":"*/5 * * * *","on_failure":"pause"}`)
		r.until("12:05")
		r.endAll(id, run.Failed)
		r.change(id, `{"cron":"*/5 * * * *","on_failure":"pause","reflection_prompt":"a"}`)
		if got := r.schedule(id); got.Status != schedule.Paused || got.ConsecutiveFailures != 1 || got.ReflectionPrompt != "a" {
			t.Errorf("after a change that does not restart: %+v", got)
		}
		r.next(id, "")
		r.until("12:10")
		r.fired(id, "12:05")

		r.change(id, `{"cron":"*/5 * * * *","on_failure":"alert","reflection_prompt":"a"}`)
		if got := r.schedule(id); got.Status != schedule.Active || got.ConsecutiveFailures != 0 {
			t.Errorf("after a change that restarts: %+v", got)
		}
		r.next(id, "12:15")

		// What is due stays due, and on_failure is the one that is stored now.
		r.clock.Advance(r.moment("12:15").Sub(r.clock.Now()))
		r.change(id, `{"cron":"*/5 * * * *","on_failure":"alert","reflection_prompt":"b"}`)
		r.fatal(r.tick("node"))
		r.fired(id, "12:05", "12:15")
		r.endAll(id, run.Failed)
		if got := r.schedule(id); got.Status != schedule.Active || got.ConsecutiveFailures != 1 || len(r.alarms) != 2 {
			t.Errorf("%d alarms, %+v", len(r.alarms), got)
		}
	})
}

// A state that an earlier build stored, without fields that are newer and with
// one that is gone, is of the same schedule.
func TestStatesOfEarlierBuilds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		const field = `{"cron":"*/5 * * * *","on_failure":"pause"}`
		id := r.agent(field)
		r.until("12:05")
		r.endAll(id, run.Failed)
		r.fatal(r.db.Write(t.Context(), func(tx txn.Tx) error {
			st, err := r.Store.LockTx(tx, r.who.TenantID, id)
			if err != nil {
				return err
			}
			st.Config = `{"cron":"*/5 * * * *","enabled":true,"input":{},"on_failure":"pause","gone":1}`
			return r.Store.PutTx(tx, st)
		}))
		r.fatal(r.Sync(t.Context(), r.who.TenantID, id))
		if got := r.schedule(id); got.Status != schedule.Paused || got.ConsecutiveFailures != 1 {
			t.Errorf("%+v", got)
		}
		r.until("12:10")
		r.fired(id, "12:05")
	})
}
