package share_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/share"
)

// A tenant that asks for everything leaves places for the others.
func TestAcquire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := share.New(3, 2, time.Minute)
		var got atomic.Int32
		var releases []func()
		var mu sync.Mutex
		for range 5 {
			go func() {
				release, err := p.Acquire(t.Context(), "greedy")
				if err != nil {
					t.Error(err)
				}
				got.Add(1)
				mu.Lock()
				defer mu.Unlock()
				releases = append(releases, release)
			}()
		}
		synctest.Wait()
		if got.Load() != 2 {
			t.Errorf("one tenant has %d places, want 2", got.Load())
		}
		other, err := p.Acquire(t.Context(), "other")
		if err != nil {
			t.Fatal(err)
		}
		other()
		for range 5 {
			mu.Lock()
			release := releases[0]
			releases = releases[1:]
			mu.Unlock()
			release()
			synctest.Wait()
		}
		if got.Load() != 5 {
			t.Errorf("%d of 5 had their turn", got.Load())
		}
	})
}

func TestAcquireEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := share.New(1, 1, 10*time.Second)
		release, err := p.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := p.Acquire(t.Context(), "b"); !fault.Is(err, fault.Unavailable) || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Acquire(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, err := p.Acquire(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		release()
		if release, err = p.Acquire(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		release()
		if _, err := (*share.Places)(nil).Acquire(t.Context(), "d"); err != nil {
			t.Error(err)
		}
	})
}

// No place is lost and none is given twice, whatever ends at the same time.
func TestAcquireAtOnce(t *testing.T) {
	t.Parallel()
	p := share.New(4, 2, time.Millisecond)
	var taken atomic.Int32
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(1000))*time.Microsecond)
				if release, err := p.Acquire(ctx, strconv.Itoa(i%3)); err == nil {
					if n := taken.Add(1); n > 4 {
						t.Errorf("%d places are taken", n)
					}
					taken.Add(-1)
					release()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	for i := range 4 {
		if _, err := p.Acquire(t.Context(), strconv.Itoa(i/2)); err != nil {
			t.Error(err)
		}
	}
}
