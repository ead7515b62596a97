package ratelimit

import (
	"hash/maphash"
	"strings"
	"sync"
)

const (
	shards = 64
	// maxBuckets bounds the memory of a table, at about 150 bytes each. Beyond
	// it, of a few buckets the one that is full again first is evicted.
	maxBuckets = 1 << 18
	// candidates is how many buckets are compared to find one to evict.
	candidates = 16
)

// table holds the buckets that are not full.
type table struct {
	seed     maphash.Seed
	perShard int // most buckets in one shard
	first    int // where drain starts; only the sharing goroutine uses it
	shards   [shards]shard
}

type shard struct {
	mu      sync.Mutex
	buckets map[key]*bucket
	unsent  []*bucket // those with requests that other nodes have to receive
	_       [64]byte  // keeps locks out of the same cache line
}

// bucket is represented by the time at which it is full again. Its shard's lock
// guards it.
type bucket struct {
	key    key
	full   int64 // nanoseconds since the limiter's base
	owed   int64 // the part of it not sent to other nodes; negative if they received too much
	listed bool  // in unsent
}

func newTable(size int) *table {
	t := &table{seed: maphash.MakeSeed(), perShard: max(size/shards, 1)}
	for i := range t.shards {
		t.shards[i].buckets = map[key]*bucket{}
	}
	return t
}

func (t *table) shard(k *key) *shard {
	return &t.shards[maphash.String(t.seed, k.id)%shards]
}

// bucketState is the state of a bucket after a reservation.
type bucketState struct {
	wait      int64 // until one request fits; 0 if it did
	remaining int
	full      int64 // until the bucket is full
}

// reserve takes one request out of a bucket. If dryRun is set, it only reads it.
func (t *table) reserve(l *Limiter, c *charge, now int64, dryRun bool) bucketState {
	rule, s := c.rule, t.shard(&c.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[c.key]
	full := now
	if b != nil && b.full > now {
		full = min(b.full, now+rule.maxBacklog(&l.share.others))
	}
	if wait := full + rule.step - rule.burst - now; wait > 0 {
		return bucketState{wait: wait, full: full - now}
	}
	if !dryRun {
		if b == nil {
			b = s.add(c.key, now, t.perShard)
		}
		full += rule.step
		b.full = full
		if l.share.others.Load() > 0 {
			s.addDebt(b, rule, &l.share)
		}
	}
	return bucketState{remaining: int((rule.burst - (full - now)) / rule.step), full: full - now}
}

// addDebt records a request that other nodes have to receive: at once if a
// considerable part of the allowance is unsent, as they may be admitting the
// same requests meanwhile.
func (s *shard) addDebt(b *bucket, rule *Rule, others *share) {
	b.owed += rule.step
	if !b.listed {
		b.listed = true
		s.unsent = append(s.unsent, b)
	}
	if b.owed >= rule.burst/urgentPart {
		others.wake()
	}
}

// refund undoes a reservation.
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

// charge counts what another node admitted.
func (t *table) charge(k key, debt, now int64) {
	s := t.shard(&k)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[k]
	if b == nil {
		// The key's texts are parts of a message, which they would keep in memory.
		k.id, k.operation = strings.Clone(k.id), strings.Clone(k.operation)
		b = s.add(k, now, t.perShard)
	}
	b.full = min(max(b.full, now)+debt, now+int64(maxDebt))
}

func (s *shard) add(k key, now int64, limit int) *bucket {
	if len(s.buckets) >= limit {
		s.evict(now)
	}
	b := &bucket{key: k, full: now}
	s.buckets[k] = b
	return b
}

// evict makes room for one more bucket.
func (s *shard) evict(now int64) {
	var fullest *bucket
	compared, evicted := 0, false
	for _, b := range s.buckets { // map order is random, so callers cannot choose it
		if b.full <= now {
			delete(s.buckets, b.key)
			evicted = true
		} else if fullest == nil || b.full < fullest.full {
			fullest = b
		}
		if compared++; compared == candidates {
			break
		}
	}
	if !evicted && fullest != nil {
		delete(s.buckets, fullest.key)
	}
}

// sweep deletes the buckets that are full.
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

// drain calls send for up to limit buckets with what other nodes have to receive
// of them, and counts that as sent. The next call starts at another shard, so
// that no bucket waits for ever.
func (t *table) drain(limit int, send func(key, int64)) {
	t.first++
	for i := range t.shards {
		s := &t.shards[(t.first+i)%shards]
		s.mu.Lock()
		for len(s.unsent) > 0 && limit > 0 {
			last := len(s.unsent) - 1
			b := s.unsent[last]
			s.unsent[last] = nil
			s.unsent = s.unsent[:last]
			b.listed = false
			if b.owed > 0 {
				send(b.key, b.owed)
				b.owed, limit = 0, limit-1
			}
		}
		s.mu.Unlock()
	}
}

// size returns the number of buckets.
func (t *table) size() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.buckets)
		s.mu.Unlock()
	}
	return n
}
