package identity

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is a useRecorder that writes into a list of batches of key ids.
func recorder(fail error) (*useRecorder, *[][]string) {
	var batches [][]string
	return newUseRecorder(func(_ context.Context, uses []Use) error {
		var ids []string
		for _, u := range uses {
			ids = append(ids, u.KeyID)
		}
		batches = append(batches, ids)
		return fail
	}, slog.New(slog.DiscardHandler)), &batches
}

func (r *useRecorder) used(id string) { r.note(Use{KeyID: id, At: time.Now()}) }

func TestUsesAreWrittenTogetherAndOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, batches := recorder(nil)
		r.start()
		r.used("a")
		time.Sleep(time.Second)
		r.used("b")
		r.used("a")
		time.Sleep(useDelay)
		synctest.Wait()
		want := [][]string{{"a", "b"}}
		if !slices.EqualFunc(*batches, want, slices.Equal) {
			t.Fatalf("wrote %v, want %v", *batches, want)
		}
		for range 30 {
			r.used("a")
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if len(*batches) != 1 {
			t.Errorf("a key in use was written again within a minute: %v", *batches)
		}
		time.Sleep(time.Minute)
		r.used("a")
		time.Sleep(useDelay)
		synctest.Wait()
		if len(*batches) != 2 {
			t.Errorf("a key in use was not written again after a minute: %v", *batches)
		}
		if len(r.recent) != 1 {
			t.Errorf("keys that were not used lately are kept: %v", r.recent)
		}
		r.stop()
	})
}

func TestUsesAreWrittenAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, batches := recorder(nil)
		r.start()
		r.used("a")
		synctest.Wait() // gathering
		r.used("b")
		r.stop()
		if want := [][]string{{"a", "b"}}; !slices.EqualFunc(*batches, want, slices.Equal) {
			t.Errorf("wrote %v, want %v", *batches, want)
		}
		r.used("c") // ignored, and no panic
		r.stop()
	})
}

func TestUsesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, batches := recorder(errors.New("the disk is full"))
		r.start()
		r.used("a")
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(*batches) != 1 {
			t.Errorf("it tried %d times", len(*batches))
		}
		r.used("a")
		r.stop()
		if len(*batches) != 2 {
			t.Errorf("it gave up for good: %v", *batches)
		}
	})
}

func TestUsesOfAServiceThatWasNotStarted(t *testing.T) {
	t.Parallel()
	r, batches := recorder(nil)
	r.used("a")
	r.stop()
	if len(*batches) != 0 || len(r.pending) != 0 {
		t.Errorf("uses pile up: %v %v", *batches, r.pending)
	}
}
