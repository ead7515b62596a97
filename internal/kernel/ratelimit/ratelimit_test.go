package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/route"
)

func parsed(t testing.TB, text string) *Limiter {
	t.Helper()
	limits, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return New(limits)
}

var of = Request{Tenant: "t1", Credential: "k1", Operation: "GET /api/v1/agents"}

func TestBurstThenEvenly(t *testing.T) {
	t.Parallel()
	l := parsed(t, "key=60/m")
	now := time.Now()
	for i := range 60 {
		want := Verdict{Limit: "60", Remaining: 59 - i, Reset: time.Duration(i+1) * time.Second}
		if diff := cmp.Diff(want, l.Reserve(now, of)); diff != "" {
			t.Fatalf("request %d (-want +got):\n%s", i, diff)
		}
	}
	refused := Verdict{Bucket: "api_key", Retry: time.Second, Limit: "60", Reset: time.Minute}
	for range 3 { // a refused request takes nothing
		if diff := cmp.Diff(refused, l.Reserve(now, of)); diff != "" {
			t.Fatalf("beyond the allowance (-want +got):\n%s", diff)
		}
	}
	if v := l.Reserve(now.Add(time.Second-1), of); v.Bucket == "" || v.Retry != 1 {
		t.Errorf("a moment too early: %+v", v)
	}
	if v := l.Reserve(now.Add(time.Second), of); v.Bucket != "" || v.Remaining != 0 {
		t.Errorf("after Retry: %+v", v)
	}
	if v := l.Reserve(now.Add(time.Hour), of); v.Remaining != 59 {
		t.Errorf("after a long time there is no more than a full bucket: %+v", v)
	}
}

// Whenever requests arrive, no more than a burst and what was refilled is
// admitted, and a caller that always tries receives all of it.
func TestRateHolds(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, text := range []string{"tenant=7/s", "tenant=100/m", "tenant=333/h", "tenant=1/s", "tenant=1000000/s", "tenant=3600000000/h"} {
		l := parsed(t, text)
		start := time.Now()
		rule := l.rules.Load().tenant
		now, admitted := start, 0
		for range 20_000 {
			now = now.Add(time.Duration(rnd.Int64N(rule.step/5 + 1)))
			if l.Reserve(now, of).Bucket == "" {
				admitted++
			}
		}
		passed := int64(now.Sub(start))
		limit := (passed + rule.burst) / rule.step
		if int64(admitted) > limit || admitted < 20_000 && float64(admitted) < .9*float64(limit) {
			t.Errorf("%s: %d admitted of at most %d", text, admitted, limit)
		}
	}
}

func TestEachBucket(t *testing.T) {
	t.Parallel()
	l := parsed(t, "tenant=10/h,key=6/m,endpoint=4/s")
	now := time.Now()
	take := func(r Request) Verdict { return l.Reserve(now, r) }
	for i := range 4 {
		if v := take(of); v.Bucket != "" || v.Limit != "4" || v.Remaining != 3-i {
			t.Fatalf("the endpoint's bucket is the tightest: %+v", v)
		}
	}
	if v := take(of); v.Bucket != "endpoint" || v.Retry != time.Second/4 {
		t.Errorf("endpoint: %+v", v)
	}
	other := of
	other.Operation = "POST /api/v1/agents"
	for range 2 {
		if v := take(other); v.Bucket != "" || v.Limit != "6" {
			t.Errorf("the refused request took from the key: %+v", v)
		}
	}
	if v := take(other); v.Bucket != "api_key" || v.Retry != 10*time.Second || v.Limit != "6" {
		t.Errorf("key: %+v", v)
	}
	// Of two empty buckets, the one that takes longer determines Retry.
	if v := take(of); v.Bucket != "api_key" || v.Retry != 10*time.Second {
		t.Errorf("endpoint and key: %+v", v)
	}
	session := Request{Tenant: "t1", Credential: "session", Operation: "GET /x"}
	for i := range 4 {
		if v := take(session); v.Bucket != "" || v.Remaining != 3-i {
			t.Errorf("another credential: %+v", v)
		}
	}
	session.Operation = "GET /y"
	if v := take(session); v.Bucket != "tenant" || v.Retry != 6*time.Minute || v.Limit != "10" {
		t.Errorf("tenant: %+v", v)
	}
	stranger := Request{Tenant: "t2", Credential: "k9", Operation: of.Operation}
	if v := take(stranger); v.Bucket != "" || v.Remaining != 3 {
		t.Errorf("another tenant is limited too: %+v", v)
	}
}

func TestOwnLimits(t *testing.T) {
	t.Parallel()
	own := Rules([]route.Limit{{N: 4, Per: time.Minute}, {N: 6, Per: 10 * time.Minute}})
	l := New(Limits{}) // own limits apply without the operator's
	now := time.Now()
	anonymous := Request{Address: "192.0.2.1", Operation: "POST /code", Own: own}
	for range 4 {
		if v := l.Reserve(now, anonymous); v.Bucket != "" || v.Limit != "4" {
			t.Fatalf("%+v", v)
		}
	}
	if v := l.Reserve(now, anonymous); v.Bucket != "endpoint" || v.Retry != 15*time.Second {
		t.Errorf("the short window: %+v", v)
	}
	now = now.Add(30 * time.Second)
	for range 2 {
		if v := l.Reserve(now, anonymous); v.Bucket != "" {
			t.Errorf("%+v", v)
		}
	}
	if v := l.Reserve(now, anonymous); v.Bucket != "endpoint" || v.Limit != "6" || v.Retry != 70*time.Second {
		t.Errorf("the long window: %+v", v)
	}
	for name, r := range map[string]Request{
		"another address":   {Address: "192.0.2.2", Operation: "POST /code", Own: own},
		"another operation": {Address: "192.0.2.1", Operation: "POST /other", Own: own},
		"a credential":      {Tenant: "t1", Credential: "192.0.2.1", Operation: "POST /code", Own: own},
	} {
		if v := l.Reserve(now, r); v.Bucket != "" || v.Remaining != 3 {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if v := l.Reserve(now, of); v != (Verdict{}) {
		t.Errorf("without limits nothing is counted: %+v", v)
	}
}

func TestGuesses(t *testing.T) {
	t.Parallel()
	l, off := parsed(t, "tenant=1/s"), New(Limits{})
	now := time.Now()
	for range guessRule.n {
		if v := l.CheckGuess(now, "192.0.2.1"); v.Bucket != "" {
			t.Fatalf("%+v", v)
		}
		l.RecordFailure(now, "192.0.2.1")
		off.RecordFailure(now, "192.0.2.1")
	}
	if v := l.CheckGuess(now, "192.0.2.1"); v.Bucket != "endpoint" || v.Retry != 100*time.Millisecond {
		t.Errorf("after %d failures: %+v", guessRule.n, v)
	}
	if v := l.CheckGuess(now, "192.0.2.2"); v.Bucket != "" {
		t.Errorf("another address: %+v", v)
	}
	if v := l.CheckGuess(now.Add(100*time.Millisecond), "192.0.2.1"); v.Bucket != "" {
		t.Errorf("later: %+v", v)
	}
	if v := off.CheckGuess(now, "192.0.2.1"); v.Bucket != "" {
		t.Errorf("with limits off: %+v", v)
	}
}

// Concurrent requests are admitted up to the allowance exactly.
func TestConcurrently(t *testing.T) {
	t.Parallel()
	l := parsed(t, "tenant=1000/h,key=700/h")
	now := time.Now()
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 200 {
				if l.Reserve(now, Request{Tenant: "t", Credential: fmt.Sprint(i % 2)}).Bucket == "" {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if got := admitted.Load(); got != 1000 {
		t.Errorf("%d admitted", got)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	l := parsed(t, "key=60/m")
	l.callers = newTable(shards * 10)
	now := time.Now()
	busy := Request{Tenant: "t", Credential: "busy"}
	for l.Reserve(now, busy).Bucket == "" {
	}
	for i := range 30_000 {
		l.Reserve(now, Request{Tenant: "t", Credential: fmt.Sprint(i)})
	}
	if n := l.callers.size(); n > shards*10 {
		t.Errorf("%d buckets are kept", n)
	}
	if v := l.Reserve(now, busy); v.Bucket == "" {
		t.Error("the busiest bucket was forgotten before idle ones")
	}
	l.callers.sweep(int64(now.Add(30 * time.Second).Sub(l.base)))
	if n := l.callers.size(); n != 1 {
		t.Errorf("after half a minute %d buckets are kept", n)
	}
	l.callers.sweep(int64(now.Add(time.Minute).Sub(l.base)))
	if n := l.callers.size(); n != 0 {
		t.Errorf("%d full buckets are kept", n)
	}
}

func TestImpossibleRulesAreMistakes(t *testing.T) {
	t.Parallel()
	for _, l := range []route.Limit{{}, {N: -1, Per: time.Second}, {N: 1}, {N: 10, Per: 9}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v is accepted", l)
				}
			}()
			NewRule(l)
		}()
	}
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::/64", "2001:db8:0:0:ffff::": "2001:db8::/64",
		"2001:db8:0:1::1": "2001:db8:0:1::/64", "fe80::1%eth0": "fe80::/64", "": "", "@": "@", "no:address": "no:address",
	} {
		if got := Network(address); got != want {
			t.Errorf("%q becomes %q", address, got)
		}
	}
}

func BenchmarkReserve(b *testing.B) {
	l := parsed(b, "tenant=1000000/s,key=1000000/s,endpoint=1000000/s")
	requests := make([]Request, 1024)
	for i := range requests {
		requests[i] = Request{
			Tenant: fmt.Sprintf("0198c0de-0000-7000-8000-%012d", i/8), Credential: fmt.Sprintf("0198c0de-0000-7000-9000-%012d", i),
			Operation: "GET /api/v1/agents/{agentId}",
		}
	}
	run := func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			i := rand.IntN(1024)
			for pb.Next() {
				i++
				l.Reserve(time.Now(), requests[i%1024])
			}
		})
	}
	b.Run("alone", run)
	b.Run("with_another_node", func(b *testing.B) {
		l.share.addNode("other", time.Now())
		defer l.share.forget(time.Now().Add(time.Hour))
		run(b)
	})
	b.Run("one_caller", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				l.Reserve(time.Now(), requests[0])
			}
		})
	})
}
