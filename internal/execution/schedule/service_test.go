package schedule_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/execution/schedule"
	"agentd/internal/kernel/work"
)

// The clock of the rig begins at 12:00.
const everyFive = `{"cron":"*/5 * * * *"}`

func TestAScheduleMakesRuns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		id := r.agent(`{"cron":"*/5 * * * *","input":{"message":"look","more":[1]},"max_concurrent_scheduled":9}`)
		r.next(id, "12:05")
		r.until("12:04")
		r.fired(id)
		r.until("12:05")
		one := r.fired(id, "12:05")[0]
		if one.Status != run.Queued || !ident.Valid(one.RunID) || string(one.Input) != `{"message":"look","more":[1]}` {
			t.Errorf("%+v", one)
		}
		r.next(id, "12:10")
		got := r.schedule(id)
		if got.LastFiredAt == nil || !got.LastFiredAt.Equal(r.moment("12:05")) || got.Status != schedule.Active {
			t.Errorf("%+v", got)
		}
		r.until("12:10")
		r.until("12:15")
		r.fired(id, "12:05", "12:10", "12:15")
	})
}

func TestWhatRunsAreAsked(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		want := map[string]string{}
		for _, c := range []struct{ field, asks string }{
			{`"cron":"30 23 10 9 *","input":{"message":"m","a":1}`, `{"message":"m","a":1}`},
			{`"cron":"15 5 11 9 *","timezone":"Asia/Kathmandu"`, "for 2026-09-11T05:15:00+05:45."},
			{`"cron":"30 23 10 9 *","input":{"a":{"b":1},"message":" "}`, `{"a":{"b":1},"message":"Your schedule`},
			{`"cron":"30 23 10 9 *","autonomous_mode":true,"reflection_prompt":"Think.","input":{"message":"m"}`, `{"message":"Think."}`},
			{`"cron":"30 23 10 9 *","autonomous_mode":true`, "state of your work"},
		} {
			want[r.agent("{"+c.field+"}")] = c.asks
		}
		r.until("23:30")
		for id, asks := range want {
			if all := r.made(id); len(all) != 1 || !strings.Contains(string(all[0].Input), asks) {
				t.Errorf("%v does not ask %s", all, asks)
			}
		}
	})
}

func TestOneRunOfEachFireWhoeverDies(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		id := r.agent(everyFive)
		dice := rand.New(rand.NewPCG(1, 2))
		dead := errors.New("the node died")
		die := func() error { return dead }
		var want []time.Time
		for range 80 {
			r.clock.Advance(5 * time.Minute)
			want = append(want, r.clock.Now())
			for lives := false; !lives; r.clock.Advance(lease) {
				r.engine.before, r.engine.after = nil, nil
				switch dice.IntN(3) {
				case 0:
					r.engine.before = die
				case 1:
					r.engine.after = die
				default:
					lives = true
				}
				if err := r.tick([]string{"a", "b"}[dice.IntN(2)]); err != nil && !errors.Is(err, dead) {
					t.Fatal(err)
				}
			}
			r.clock.Advance(want[len(want)-1].Sub(r.clock.Now())) // back to the fire
			r.endAll(id, run.Completed)
		}
		var got []time.Time
		last := ""
		for _, one := range r.made(id) {
			got = append(got, r.fire(one))
			if one.RunID <= last {
				t.Errorf("%s does not sort behind %s", one.RunID, last)
			}
			last = one.RunID
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestTwoNodesMakeOneRun(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		id := r.agent(everyFive)
		for range 10 {
			r.clock.Advance(5 * time.Minute)
			leases, err := r.queue.Claim(t.Context(), schedule.WorkKind, "a", 1, lease)
			r.fatal(err)
			// a stands still for longer than its lease, and goes on beside b.
			r.clock.Advance(lease + time.Second)
			others, err := r.queue.Claim(t.Context(), schedule.WorkKind, "b", 1, lease)
			r.fatal(err)
			if len(leases) != 1 || len(others) != 1 {
				t.Fatalf("claimed %v and %v", leases, others)
			}
			var wg sync.WaitGroup
			for _, l := range []work.Lease{leases[0], others[0]} {
				wg.Go(func() {
					if err := r.Handle(t.Context(), l); err != nil && !errors.Is(err, work.ErrLost) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			r.endAll(id, run.Completed)
			r.clock.Advance(-lease - time.Second)
		}
		if n := len(r.made(id)); n != 10 {
			t.Errorf("%d runs of 10 fires", n)
		}
	})
}

func TestTooManyRuns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		id := r.agent(`{"cron":"*/5 * * * *","max_concurrent_scheduled":2}`)
		_, err := r.runs.Create(t.Context(), r.who, run.Request{AgentID: id}) // a run of another caller does not count
		r.fatal(err)
		elsewhere := r.made(id)[0].RunID
		for _, m := range []string{"12:05", "12:10", "12:15"} {
			r.until(m)
		}
		if n := len(r.made(id)); n != 3 {
			t.Fatalf("%d runs, want 3", n)
		}
		got := r.schedule(id)
		if got.LastSkipReason != schedule.SkipConcurrency || !got.LastSkippedAt.Equal(r.moment("12:15")) || !got.LastFiredAt.Equal(r.moment("12:10")) {
			t.Errorf("%+v", got)
		}
		r.next(id, "12:20")
		for _, one := range r.made(id) {
			if one.RunID != elsewhere {
				r.end(one.RunID, run.Completed, true)
				break
			}
		}
		r.until("12:20")
		r.until("12:25")
		if n := len(r.made(id)); n != 4 {
			t.Errorf("%d runs, want 4", n)
		}
	})
}

// An end without a notification is found at the next fire.
func TestAnEndThatWasNotTold(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		id := r.agent(`{"cron":"*/5 * * * *","on_failure":"pause"}`)
		r.until("12:05")
		r.end(r.made(id)[0].RunID, run.Completed, false)
		r.until("12:10")
		r.end(r.fired(id, "12:05", "12:10")[1].RunID, run.Failed, false)
		r.until("12:15")
		r.fired(id, "12:05", "12:10")
		if got := r.schedule(id); got.Status != schedule.Paused || got.ConsecutiveFailures != 1 {
			t.Errorf("%+v", got)
		}
	})
}

func TestOnFailure(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		for _, c := range []struct {
			on       string
			status   run.Status
			failures int64
			paused   bool
			alarms   int
		}{
			{"continue", run.Completed, 0, false, 0},
			{"continue", run.Failed, 1, false, 0},
			{"continue", run.TimedOut, 1, false, 0},
			{"pause", run.Completed, 0, false, 0},
			{"pause", run.Cancelled, 0, false, 0},
			{"pause", run.GuardrailBlocked, 1, true, 1},
			{"alert", run.Completed, 0, false, 0},
			{"alert", run.Rejected, 1, false, 1},
		} {
			r.alarms = nil
			id := r.agent(`{"cron":"*/5 * * * *","on_failure":"` + c.on + `"}`)
			r.pass(5 * time.Minute)
			one := r.made(id)[0]
			r.end(one.RunID, c.status, true)
			r.end(one.RunID, c.status, true) // notified again, counts once
			got := r.schedule(id)
			if got.ConsecutiveFailures != c.failures || (got.Status == schedule.Paused) != c.paused || len(r.alarms) != c.alarms {
				t.Errorf("%s after %s: %+v, alarms %v", c.on, c.status, got, r.alarms)
			}
			if c.paused && (got.NextRunAt != nil || r.items() != 0) {
				t.Errorf("a paused schedule is to fire at %v, with %d items of work", got.NextRunAt, r.items())
			}
			for _, a := range r.alarms {
				if a.RunID != one.RunID || a.AgentID != id || a.Sentence == "" || a.Paused != c.paused {
					t.Errorf("alarm: %+v", a)
				}
			}
			r.fatal(r.Remove(t.Context(), r.who, id))
		}
	})
}

func TestFailuresAreCountedInARow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		id := r.agent(everyFive)
		for i, want := range []int64{1, 2, 3, 3, 0, 1} {
			r.pass(5 * time.Minute)
			status := run.Failed
			if i == 3 {
				status = run.Cancelled
			}
			if i == 4 {
				status = run.Completed
			}
			r.endAll(id, status)
			if got := r.schedule(id).ConsecutiveFailures; got != want {
				t.Fatalf("after %d: %d failures, want %d", i, got, want)
			}
		}
	})
}

func TestMissedFires(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		field string
		back  string // when the node is back
		fired []string
		next  string
		skip  bool
	}{
		"newest_only":      {`{"cron":"*/5 * * * *"}`, "13:02", []string{"13:00"}, "13:05", false},
		"a_little_late":    {`{"cron":"*/5 * * * *","misfire":"skip"}`, "12:06", []string{"12:05"}, "12:10", false},
		"skip":             {`{"cron":"*/5 * * * *","misfire":"skip"}`, "13:02", nil, "13:05", true},
		"skip_is_punctual": {`{"cron":"*/5 * * * *","misfire":"skip"}`, "13:00", []string{"13:00"}, "13:05", false},
		"yesterday":        {`{"cron":"0 13 * * *"}`, "09-11 12:30", []string{"13:00"}, "09-11 13:00", false},
		"after_a_week":     {`{"cron":"0 13 * * *"}`, "09-17 12:30", []string{"09-16 13:00"}, "09-17 13:00", false},
		"too_old":          {`{"cron":"0 13 10 * *"}`, "09-11 13:01", nil, "10-10 13:00", true},
		"old_but_not_too":  {`{"cron":"0 13 10 * *"}`, "09-11 13:00", []string{"13:00"}, "10-10 13:00", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, r *rig) {
				id := r.agent(c.field)
				r.until(c.back)
				r.fired(id, c.fired...)
				r.next(id, c.next)
				if skipped := r.schedule(id).LastSkipReason == schedule.SkipMissed; skipped != c.skip {
					t.Errorf("%+v", r.schedule(id))
				}
			})
		})
	}
}

func TestSuspendedCompaniesDoNotFire(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		id := r.agent(everyFive)
		r.suspend = true
		r.until("12:05")
		r.fired(id)
		if got := r.schedule(id); got.LastSkipReason != schedule.SkipSuspended {
			t.Errorf("%+v", got)
		}
		r.suspend = false
		r.until("12:10")
		r.fired(id, "12:10")
	})
}

func TestRunsThatAreRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		id := r.agent(`{"cron":"*/5 * * * *","on_failure":"alert"}`)
		r.engine.before = func() error { return fault.New(fault.Limited, "quota_exceeded", "The quota of runs is used up.") }
		r.until("12:05")
		r.fired(id)
		got := r.schedule(id)
		if got.Status != schedule.Failed || got.Problem != "The quota of runs is used up." || got.ConsecutiveFailures != 1 || got.LastSkipReason != schedule.SkipRefused {
			t.Errorf("%+v", got)
		}
		if len(r.alarms) != 1 || r.alarms[0].RunID != "" {
			t.Errorf("alarms: %+v", r.alarms)
		}
		r.next(id, "12:10")
		r.engine.before = nil
		r.until("12:10")
		r.fired(id, "12:10")
		if got := r.schedule(id); got.Status != schedule.Active || got.Problem != "" {
			t.Errorf("%+v", got)
		}
	})
}

func TestAFireIsTriedAgainWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		id := r.agent(everyFive)
		away := fault.New(fault.Unavailable, "", "Away.")
		r.engine.before = func() error { return away }
		r.clock.Advance(5 * time.Minute)
		if err := r.tick("node"); !errors.Is(err, away) {
			t.Fatal(err)
		}
		r.engine.before = nil
		r.pass(lease)
		r.fired(id, "12:05")
	})
}

// A run that policy refused is stored, rejected: the schedule has had its run.
func TestARunThatEndsAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		id := r.agent(everyFive)
		r.engine.after = func() error {
			r.end(r.made(id)[0].RunID, run.Rejected, true)
			return nil
		}
		r.until("12:05")
		r.engine.after = nil
		if got := r.schedule(id); got.ConsecutiveFailures != 1 {
			t.Errorf("%+v", got)
		}
		r.until("12:10")
		r.fired(id, "12:05", "12:10")
	})
}

func TestForgedMetadataIsNobodysRun(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		id := r.agent(`{"cron":"*/5 * * * *","on_failure":"pause"}`)
		made, err := r.runs.Create(t.Context(), r.who, run.Request{
			AgentID: id, Metadata: schema.Object(`{"source":"schedule","schedule_fire":"2026-09-10T12:00:00Z"}`),
		})
		r.fatal(err)
		r.end(made.RunID, run.Failed, true)
		r.next(id, "12:05")
	})
}

func TestSchedulesOfOthersAreAbsent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		id := r.agent(everyFive)
		other := authz.Caller{TenantID: ident.New()}
		if _, err := r.Get(t.Context(), other.TenantID, id); !fault.Is(err, fault.NotFound) {
			t.Errorf("Get: %v", err)
		}
		if _, err := r.Set(t.Context(), other, id, config(everyFive)); !fault.Is(err, fault.NotFound) {
			t.Errorf("Set: %v", err)
		}
		if err := r.Remove(t.Context(), other, id); !fault.Is(err, fault.NotFound) {
			t.Errorf("Remove: %v", err)
		}
		r.next(id, "12:05")
	})
}
