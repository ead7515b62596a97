package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/base/clock"
)

func TestSynced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c clock.Synced
		if d := time.Since(c.Now()); d != 0 {
			t.Errorf("a clock that was not set is off by %v", d)
		}
		sent := time.Now()
		time.Sleep(20 * time.Millisecond) // the answer takes as long as the question
		there := sent.Add(10*time.Millisecond - time.Hour)
		if skew := c.Set(there, sent); skew != time.Hour {
			t.Errorf("the skew is %v", skew)
		}
		time.Sleep(time.Minute)
		if want := there.Add(time.Minute + 10*time.Millisecond); !c.Now().Equal(want) {
			t.Errorf("it is %v, want %v", c.Now(), want)
		}
	})
}

func TestSteady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.NewSteady()
		time.Sleep(time.Minute)
		if d := time.Since(c.Now()); d != 0 {
			t.Errorf("it is off by %v", d)
		}
	})
}
