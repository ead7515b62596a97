package worksql

import (
	"strings"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/store/sqldb"
)

// Statements name moments with two tokens. Each takes one argument, which is a
// result of a function of this file:
//
//	@set  a moment to store
//	@now  a moment to compare with
//
// Over PostgreSQL the database's clock decides: a token is its present time plus
// the argument, a duration. Over SQLite there is one node, whose clock decides: a
// token is the argument, a moment.

// onDatabaseClock and onNodeClock are what the tokens stand for. now() is the same
// during a transaction, so that it can be looked up in an index; a lease that is
// extended at the end of a long transaction needs the true time.
var (
	onDatabaseClock = strings.NewReplacer(
		"@set", "((EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT + ?)",
		"@now", "((EXTRACT(EPOCH FROM now()) * 1000000)::BIGINT + ?)")
	onNodeClock = strings.NewReplacer("@set", "?", "@now", "CAST(? AS BIGINT)")
)

// timeline is the clocks of a queue.
type timeline struct {
	database bool        // the database's clock decides, and node is only converted from
	node     clock.Clock // of whoever names due times
	leases   clock.Clock // of leases, where no database's clock decides
}

// newTimeline returns the clocks of a queue over db. A clock that a test moves
// decides on PostgreSQL as well, because the database's cannot follow it.
func newTimeline(db *sqldb.DB, node clock.Clock) timeline {
	if _, moved := node.(interface{ Advance(d time.Duration) }); moved {
		return timeline{node: node, leases: node}
	}
	return timeline{database: db.Postgres(), node: node, leases: clock.NewSteady()}
}

// text returns a statement with what its tokens stand for.
func (t timeline) text(statement string) string {
	if t.database {
		return onDatabaseClock.Replace(statement)
	}
	return onNodeClock.Replace(statement)
}

// due is the argument for the time at which an item is due; the zero time is now.
func (t timeline) due(at time.Time) int64 { return t.dueFrom(at, t.node.Now()) }

// dueFrom is due where the node's clock was just read.
func (t timeline) dueFrom(at, now time.Time) int64 {
	if at.IsZero() {
		at = now
	}
	if t.database {
		return at.Sub(now).Microseconds()
	}
	return sqldb.Micros(at)
}

// leaseEnd is the argument for a time after now by the clock of leases.
func (t timeline) leaseEnd(after time.Duration) int64 {
	if t.database {
		return after.Microseconds()
	}
	return sqldb.Micros(t.leases.Now().Add(after))
}

// claimable are the arguments of the condition of a claim: up to when any item, an
// item that is not held, and one that is held can be claimed.
func (t timeline) claimable(leaveHeld bool) (latest, free, held int64) {
	free, held = t.due(time.Time{}), t.leaseEnd(0)
	if leaveHeld {
		held = t.leaseEnd(-century)
	}
	return max(free, held), free, held
}

const century = 100 * 365 * 24 * time.Hour
