package ratelimit

import (
	"hash/maphash"
	"strings"
	"sync"
)

const (
	shards = 64
	// maxBuckets bounds the memory of a table, at some 150 bytes each. Beyond
	// it the bucket that is owed least, among a few, is forgotten.
	maxBuckets = 1 << 18
	// candidates are how many are looked at to find one to forget.
	candidates = 16
)

// table holds the buckets that are not full.
type table struct {
	seed   maphash.Seed
	most   int // in one shard
	first  int // the shard that told begins with; only the sharing goroutine knows it
	shards [shards]shard
}

type shard struct {
	mu      sync.Mutex
	buckets map[key]*bucket
	untold  []*bucket // those of which other nodes have to hear
	_       [64]byte  // no two locks in one cache line
}

// bucket is full again at a time; it is locked by its shard.
type bucket struct {
	key    key
	full   int64 // nanoseconds since the limiter's base
	owed   int64 // of that, what other nodes have not heard of; below 0 where they heard too much
	listed bool  // in untold
}

func newTable(most int) *table {
	t := &table{seed: maphash.MakeSeed(), most: max(most/shards, 1)}
	for i := range t.shards {
		t.shards[i].buckets = map[key]*bucket{}
	}
	return t
}

func (t *table) shard(k *key) *shard {
	return &t.shards[maphash.String(t.seed, k.id)%shards]
}

// bucketState is where a bucket stands after it was asked.
type bucketState struct {
	wait      int64 // until one more fits; 0: it was taken, or could be
	remaining int
	full      int64 // until the bucket is full
}

// reserve takes one request out of a bucket, unless it is only to be looked at.
func (t *table) reserve(l *Limiter, c *charge, now int64, look bool) bucketState {
	rule, s := c.rule, t.shard(&c.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[c.key]
	full := now
	if b != nil && b.full > now {
		full = min(b.full, now+rule.longest(&l.share.others))
	}
	if wait := full + rule.step - rule.burst - now; wait > 0 {
		return bucketState{wait: wait, full: full - now}
	}
	if !look {
		if b == nil {
			b = s.add(c.key, now, t.most)
		}
		full += rule.step
		b.full = full
		if l.share.others.Load() > 0 {
			s.addDebt(b, rule, &l.share)
		}
	}
	return bucketState{remaining: int((rule.burst - (full - now)) / rule.step), full: full - now}
}

// addDebt notes what other nodes have to hear of: at once where it is a good part
// of the allowance, as they might be giving away the same.
func (s *shard) addDebt(b *bucket, rule *Rule, others *share) {
	b.owed += rule.step
	if !b.listed {
		b.listed = true
		s.untold = append(s.untold, b)
	}
	if b.owed >= rule.burst/hurry {
		others.wake()
	}
}

// refund undoes a take.
func (t *table) refund(c *charge) {
	s := t.shard(&c.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.buckets[c.key]; b != nil {
		b.full -= c.rule.step
		if b.listed {
			b.owed -= c.rule.step
		}
	}
}

// charge takes what another node admitted.
func (t *table) charge(k key, debt, now int64) {
	s := t.shard(&k)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[k]
	if b == nil {
		// The key is part of a message, which it would keep in memory.
		k.id, k.operation = strings.Clone(k.id), strings.Clone(k.operation)
		b = s.add(k, now, t.most)
	}
	b.full = min(max(b.full, now)+debt, now+int64(maxDebt))
}

func (s *shard) add(k key, now int64, most int) *bucket {
	if len(s.buckets) >= most {
		s.forget(now)
	}
	b := &bucket{key: k, full: now}
	s.buckets[k] = b
	return b
}

// forget makes room for one more.
func (s *shard) forget(now int64) {
	var least *bucket
	looked, gone := 0, false
	for _, b := range s.buckets { // in an order that nobody can choose
		if b.full <= now {
			delete(s.buckets, b.key)
			gone = true
		} else if least == nil || b.full < least.full {
			least = b
		}
		if looked++; looked == candidates {
			break
		}
	}
	if !gone && least != nil {
		delete(s.buckets, least.key)
	}
}

// sweep forgets the buckets that are full.
func (t *table) sweep(now int64) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for k, b := range s.buckets {
			if b.full <= now && !b.listed {
				delete(s.buckets, k)
			}
		}
		s.mu.Unlock()
	}
}

// drain gives up to most buckets with what other nodes have to hear of them, and
// takes it as told. The next call begins elsewhere, so that none waits for ever.
func (t *table) drain(most int, tell func(key, int64)) {
	t.first++
	for i := range t.shards {
		s := &t.shards[(t.first+i)%shards]
		s.mu.Lock()
		for len(s.untold) > 0 && most > 0 {
			last := len(s.untold) - 1
			b := s.untold[last]
			s.untold[last] = nil
			s.untold = s.untold[:last]
			b.listed = false
			if b.owed > 0 {
				tell(b.key, b.owed)
				b.owed, most = 0, most-1
			}
		}
		s.mu.Unlock()
	}
}

// size counts the buckets.
func (t *table) size() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.buckets)
		s.mu.Unlock()
	}
	return n
}
