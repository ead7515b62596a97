package worksql

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
)

const (
	// HeartbeatEvery is how often a running node shows that it holds its name.
	HeartbeatEvery = 5 * time.Second
	// SlowHeartbeat is HeartbeatEvery on SQLite, where a node is the only one.
	SlowHeartbeat = 30 * time.Second
	// DeadAfter is the age of a heartbeat after which a name is free, and its node does
	// not count any more.
	DeadAfter = 30 * time.Second
	// forgetAfter is how long the row of a node is kept that does not run.
	forgetAfter = 7 * 24 * time.Hour
)

// Nodes are the nodes that run over a PostgreSQL database. A node holds its name,
// which owns leases, by a row with a heartbeat: a name that two nodes had at a time
// would let each take the other's work for its own of before a restart.
type Nodes struct {
	db                              *sqldb.DB
	time                            timeline
	find, insert, take, beat, clear string
	rank                            string
}

// NewNodes returns the nodes of a database.
func NewNodes(db *sqldb.DB, clock clock.Clock) *Nodes {
	t := newTimeline(db, clock)
	return &Nodes{
		db: db, time: t,
		find: t.text(`SELECT boot_id, host, path, inode, @now - seen_at FROM nodes WHERE node = ?`),
		insert: t.text(`INSERT INTO nodes (node, boot_id, host, path, inode, version, role, started_at, seen_at)
VALUES (?, ?, ?, ?, ?, ?, ?, @set, @set)
ON CONFLICT (node) DO NOTHING`),
		take: t.text(`UPDATE nodes SET boot_id = ?, host = ?, path = ?, inode = ?, version = ?, role = ?, runs = 0,
started_at = @set, seen_at = @set WHERE node = ?`),
		beat:  t.text(`UPDATE nodes SET seen_at = @set, runs = ? WHERE node = ? AND boot_id = ? RETURNING seen_at`),
		rank:  t.text(`SELECT COUNT(CASE WHEN node < ? THEN 1 END), COUNT(*) FROM nodes WHERE node = ? OR seen_at > @now`),
		clear: t.text(`DELETE FROM nodes WHERE seen_at < @now`),
	}
}

// Node is a process that runs.
type Node struct {
	Name   string
	BootID string // random
	Place
	Version string // of its program
	Role    string
	Runs    int // that it carries
}

// Place is where a node's data directory is. The lock in the directory keeps a
// second process out of it, so that a node at the same place is a restarted one.
type Place struct {
	Host, Path string
	Inode      int64
}

// Take makes the node the holder of its name, or of the name fresh where its own is
// held by a node that runs at another place: a data directory that was copied. It
// returns the name, and that node where there is one.
func (n *Nodes) Take(ctx context.Context, node Node, fresh string) (name string, holder *Node, err error) {
	now := n.time.due(time.Time{})
	err = n.db.Write(ctx, func(tx txn.Tx) error {
		t := sqldb.From(tx)
		name, holder = node.Name, nil
		if _, err := t.Exec(n.clear, n.time.due(n.time.node.Now().Add(-forgetAfter))); err != nil {
			return err
		}
		added, err := t.Exec(n.insert, node.Name, node.BootID, node.Host, node.Path, node.Inode, node.Version, node.Role, now, now)
		if err != nil || added > 0 {
			return err
		}
		found := Node{Name: node.Name}
		var age int64
		err = t.QueryRow(n.find+t.ForUpdate(), now, node.Name).Scan(&found.BootID, &found.Host, &found.Path, &found.Inode, &age)
		if err != nil {
			return err
		}
		if found.Place == node.Place || age > DeadAfter.Microseconds() {
			_, err = t.Exec(n.take, node.BootID, node.Host, node.Path, node.Inode, node.Version, node.Role, now, now, node.Name)
			return err
		}
		name, holder = fresh, &found
		_, err = t.Exec(n.insert, fresh, node.BootID, node.Host, node.Path, node.Inode, node.Version, node.Role, now, now)
		return err
	})
	return name, holder, err
}

// Beat shows that a node runs, and returns the database's time. held reports
// whether the node still holds its name.
func (n *Nodes) Beat(ctx context.Context, node Node) (now time.Time, held bool, err error) {
	err = n.db.Write(ctx, func(tx txn.Tx) error {
		var micros int64
		err := sqldb.From(tx).QueryRow(n.beat, n.time.due(time.Time{}), node.Runs, node.Name, node.BootID).Scan(&micros)
		now, held = sqldb.Time(micros), err == nil
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return now, held, err
}

// Leave frees the name of a node that ends.
func (n *Nodes) Leave(ctx context.Context, node Node) error {
	return n.db.Write(ctx, func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(`DELETE FROM nodes WHERE node = ? AND boot_id = ?`, node.Name, node.BootID)
		return err
	})
}

// Rank returns the number of nodes that run, and which of them this one is by the
// order of their names, from 0.
func (n *Nodes) Rank(ctx context.Context, node Node) (index, of int, err error) {
	alive := n.time.due(n.time.node.Now().Add(-DeadAfter))
	err = n.db.QueryRow(ctx, n.rank, node.Name, node.Name, alive).Scan(&index, &of)
	return index, of, err
}

// Listed is a node as [Nodes.List] shows it.
type Listed struct {
	Name    string    `json:"node"`
	Host    string    `json:"host"`
	Path    string    `json:"data_dir"`
	Version string    `json:"version"` // empty: of before nodes told
	Role    string    `json:"role"`
	Runs    int       `json:"runs"`
	Started time.Time `json:"started_at"`
	Seen    time.Time `json:"seen_at"`
	Running bool      `json:"running"`
}

// versionsMigration is the migration since which nodes tell their version.
const versionsMigration = 780

// List lists the nodes of the last week, those that run first. It also reads a
// database of an older program.
func (n *Nodes) List(ctx context.Context) ([]Listed, error) {
	applied, err := n.db.Applied(ctx)
	if err != nil {
		return nil, err
	}
	columns := `'', 'all', 0`
	if slices.Contains(applied, versionsMigration) {
		columns = `version, role, runs`
	}
	dead := DeadAfter
	if !n.db.Postgres() {
		dead = 3 * SlowHeartbeat
	}
	query := n.time.text(`SELECT node, host, path, ` + columns + `, started_at, seen_at, seen_at > @now FROM nodes ORDER BY 9 DESC, node`)
	return sqldb.Collect(n.db.Reader(ctx), query, []any{n.time.due(n.time.node.Now().Add(-dead))}, func(r sqldb.Row) (l Listed, err error) {
		var started, seen int64
		err = r.Scan(&l.Name, &l.Host, &l.Path, &l.Version, &l.Role, &l.Runs, &started, &seen, &l.Running)
		l.Host, _, _ = strings.Cut(l.Host, " ") // the boot of its kernel follows
		l.Started, l.Seen = sqldb.Time(started), sqldb.Time(seen)
		return l, err
	})
}
