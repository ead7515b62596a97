package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// The simulation runs small worlds, one per seed: a few runs, nodes that die,
// stall and come back, a network that fails, a database that fails or only seems
// to, and people who pause, decide, cancel, or do not answer in time. All runs
// must end once the faults end, and no rule of the journal may be broken on the
// way (rules D6-journal, D6-recovery, D6-fencing).
//
// Each world is a synctest bubble, so its time costs nothing. What happens is a
// function of the seed, except for the order of goroutines that are ready at the
// same instant, which is the scheduler's.
//
// The race detector gets a tenth of the worlds.
//
//	AGENTD_SIM_SEEDS=5000 plays more worlds
//	AGENTD_SIM_SEED=17    plays one again, and tells what happened in it

const (
	seedsOnSQLite   = 500
	seedsOnPostgres = 40
)

func TestSimulation(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		simulate(t, sqldbtest.SQLite, seedsOnSQLite)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		simulate(t, sqldbtest.Postgres, seedsOnPostgres)
	})
}

// simulate runs the worlds from seed 1 on, two at a time. Each of the two has a
// database, whose tenants are the worlds.
func simulate(t *testing.T, kind sqldbtest.Engine, worlds int) {
	tally := &tally{n: map[string]int{}}
	first, whole := 1, worlds
	worlds /= slower
	if s := os.Getenv("AGENTD_SIM_SEEDS"); s != "" {
		worlds = number(t, s)
	}
	if s := os.Getenv("AGENTD_SIM_SEED"); s != "" {
		first, worlds = number(t, s), 1
	}
	var next atomic.Int64
	next.Store(int64(first))
	t.Run("worlds", func(t *testing.T) {
		for i := range 2 {
			t.Run(strconv.Itoa(i+1), func(t *testing.T) {
				t.Parallel()
				cfg := migrated(t, kind)
				for !t.Failed() {
					seed := next.Add(1) - 1
					if seed >= int64(first+worlds) {
						return
					}
					synctest.Test(t, func(t *testing.T) { play(t, cfg, kind, uint64(seed), tally, worlds == 1) })
				}
			})
		}
	})
	t.Logf("%d worlds: %s", worlds, tally)
	if t.Failed() || worlds < whole || kind != sqldbtest.SQLite {
		return
	}
	for _, what := range mustHappen {
		if tally.of(what) == 0 {
			t.Errorf("in %d worlds it never happened: %s", worlds, what)
		}
	}
}

// mustHappen has what the simulation must have met, so that it tests faults.
var mustHappen = []string{
	"family with a budget", "crash before a write", "crash after a write", "write refused", "write made and reported as failed",
	"node killed", "node back under its name", "node under a new name", "node stalled", "lease ran out", "two nodes",
	"pause", "resume", "resume with a note", "approve", "approve edited", "reject", "reject and continue",
	"respond", "authorize", "cancel", "time passed", "approval decided once",
	"model: retryable error", "model: error", "model: hangs", "model: breaks off", "model: fallback asked", "model: asked again",
	"model: streams", "model: drips", "model: called during an outage", "provider down", "provider has limits", "share of a limit changed", "model: asks to be left alone", "database away", "database: written to while it is away", "model: parallel calls", "model: repeated id", "model: unknown tool", "model: half a call",
	"tool: needs authorization", "tool: outcome unknown", "tool: died under way", "tool: repeated",
	"rule changed", "rule: warn of a call", "rule: require_approval of a call", "rule: block of a call", "rule: revoke_permissions of a call",
	"rule: terminate_agent of a call", "rule: warn of a model", "rule: block of a model", "rule: terminate_agent of a model",
	"vote: proposed", "vote: castBallot", "vote: tallyVotes", "vote: passed", "vote: rejected", "law: block", "law: require_approval", "law: held for an act",
	"completed", "failed", "cancelled", "timeout", "rejected", "expired", "out of time", "run resumed after a crash",
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// migrated returns a database for many worlds. SQLite is in memory where that is
// possible: the machine does not lose power here.
func migrated(t *testing.T, kind sqldbtest.Engine) sqldb.Config {
	t.Helper()
	cfg := sqldbtest.Config(t, kind)
	if kind == sqldbtest.SQLite {
		if dir, err := os.MkdirTemp("/dev/shm", "agentd-sim-"); err == nil { //nolint:usetesting // a temporary directory of the test is on a disk
			t.Cleanup(func() { os.RemoveAll(dir) })
			cfg.Dir = filepath.Clean(dir)
		}
	}
	db, err := sqldb.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// tally counts what happened, over all worlds.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *tally) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[what]++
}

func (c *tally) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[what]
}

func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for what, n := range c.n {
		all = append(all, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// rest lets time pass in a bubble.
func rest(d time.Duration) { <-time.After(d) }
