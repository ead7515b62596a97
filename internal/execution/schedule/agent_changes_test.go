package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agentd/internal/agents/agent"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/execution/schedule"
)

func TestTheAgentIsFollowed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		id := r.agent("")
		if got := r.schedule(id); got != nil || r.items() != 0 {
			t.Fatalf("%+v, %d items", got, r.items())
		}
		r.change(id, everyFive)
		r.next(id, "12:05")
		r.change(id, `{"cron":"0 * * * *"}`)
		r.next(id, "13:00")
		r.pass(30 * time.Minute) // the item was due at 12:05
		r.fired(id)
		r.change(id, `{"cron":"0 * * * *","enabled":false}`)
		r.next(id, "")
		if r.items() != 0 {
			t.Error("a disabled schedule has work")
		}
		r.change(id, `{"cron":"0 * * * *","enabled":true}`)
		r.next(id, "13:00")

		r.move(id, "suspend")
		r.next(id, "")
		r.until("13:30")
		r.move(id, "activate")
		r.fired(id) // what came while it was suspended was not missed
		r.next(id, "14:00")

		r.until("14:00")
		r.fired(id, "14:00")
		r.change(id, "")
		if got := r.schedule(id); got != nil || r.items() != 0 {
			t.Errorf("%+v, %d items", got, r.items())
		}
		r.change(id, everyFive)
		r.fatal(r.agents.Store().Delete(t.Context(), r.who, id))
		r.deliver()
		if r.items() != 0 {
			t.Error("the schedule of a deleted agent has work")
		}
		r.until("14:30")
	})
}

// A change of the agent that is not delivered yet is seen by the next fire, and by
// whoever looks.
func TestAChangeThatWasNotTold(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		write := func(id, field string) {
			_, err := r.agents.Store().Update(t.Context(), r.who, id, fieldOf(field))
			r.fatal(err)
		}
		changed, disabled, gone, unheard := r.agent(everyFive), r.agent(everyFive), r.agent(everyFive), r.agent("")
		write(changed, `{"cron":"30 12 * * *"}`)
		write(disabled, `{"cron":"*/5 * * * *","enabled":false}`)
		write(unheard, everyFive)
		r.fatal(r.agents.Store().Delete(t.Context(), r.who, gone))
		r.next(changed, "12:30")
		r.next(disabled, "")
		r.next(unheard, "12:05")
		r.until("12:05")
		r.fired(changed)
		r.fired(disabled)
		r.fired(gone)
		r.until("12:30")
		r.fired(changed, "12:30")
	})
}

func TestAChangeInTheMiddleOfAFire(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		if !r.engine.admits {
			t.Skip("without an admission the run is stored by then")
		}
		id := r.agent(everyFive)
		r.engine.before = func() error {
			r.engine.before = nil
			_, err := r.Set(t.Context(), r.who, id, config(`{"cron":"0 * * * *"}`))
			return err
		}
		r.until("12:05")
		r.fired(id)
		r.next(id, "13:00")
		r.until("13:00")
		r.fired(id, "13:00")
	})
}

func TestSetReplacesAndStartsAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		id := r.agent(`{"cron":"*/5 * * * *","on_failure":"pause","input":{"a":1},"unknown":true}`)
		r.until("12:05")
		r.endAll(id, run.Failed)
		r.next(id, "")
		got, err := r.Set(t.Context(), r.who, id, config(`{"cron":"*/5 * * * *","on_failure":"pause","timezone":"Europe/Berlin"}`))
		r.fatal(err)
		want := &schedule.Schedule{
			AgentID: id, NextRunAt: new(r.moment("12:10")), Status: schedule.Active, LastFiredAt: new(r.moment("12:05")),
			Config: schedule.Config{Schedule: agent.Schedule{
				Cron: "*/5 * * * *", Enabled: true, Timezone: "Europe/Berlin", MaxConcurrent: 1, OnFailure: "pause", Misfire: "once",
			}},
		}
		unexported := cmpopts.IgnoreUnexported(schedule.Schedule{}, schedule.Config{}, agent.Schedule{})
		if diff := cmp.Diff(want, got, unexported, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		r.deliver() // the agent's own change says nothing new
		if diff := cmp.Diff(want, r.schedule(id), unexported, cmp.Transformer("text", func(o schema.Object) string {
			return strings.TrimPrefix(string(o), "{}")
		})); diff != "" {
			t.Errorf("read again (-want +got):\n%s", diff)
		}
		g, err := r.agents.Store().Get(t.Context(), r.who.TenantID, id)
		r.fatal(err)
		if !strings.Contains(string(g.Schedule), `"timezone":"Europe/Berlin"`) || strings.Contains(string(g.Schedule), "unknown") {
			t.Errorf("the agent's field: %s", g.Schedule)
		}
		r.until("12:10")
		r.fired(id, "12:05", "12:10")

		// The same once more, while it is paused.
		r.endAll(id, run.Failed)
		r.next(id, "")
		_, err = r.Set(t.Context(), r.who, id, config(`{"cron":"*/5 * * * *","on_failure":"pause","timezone":"Europe/Berlin"}`))
		r.fatal(err)
		r.deliver()
		r.next(id, "12:15")

		for range 2 {
			r.fatal(r.Remove(t.Context(), r.who, id))
		}
		if r.schedule(id) != nil || r.items() != 0 {
			t.Error("it is still there")
		}
	})
}

func TestEnablingStartsAPausedScheduleAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		const paused = `{"cron":"*/5 * * * *","on_failure":"pause","enabled":`
		id := r.agent(paused + "true}")
		r.until("12:05")
		r.endAll(id, run.Failed)
		r.change(id, paused+"true}")
		r.next(id, "") // nothing was changed
		r.change(id, paused+"false}")
		r.next(id, "")
		r.change(id, paused+"true}")
		r.next(id, "12:10")
	})
}
