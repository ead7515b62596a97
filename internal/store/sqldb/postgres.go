package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"agentd/internal/base/share"
	"agentd/internal/base/txn"
)

const (
	// transactionTimeout ends a transaction whose server went silent. Ours take
	// milliseconds, so it also bounds how long one waits for locks.
	transactionTimeout = 30 * time.Second
	connectTimeout     = 5 * time.Second
	// cancelDelay is how long a server may take to cancel a query.
	cancelDelay = 500 * time.Millisecond
	// maxRepeats bounds how often transactions that collide are repeated: the
	// waits double from 1 ms to 128 ms.
	maxRepeats = 10
)

func openPostgres(ctx context.Context, cfg Config) (*DB, error) {
	pc, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		// pgx leaves the password out of its message.
		return nil, fmt.Errorf("sqldb: the database's URL cannot be read: %w", err)
	}
	pc.ConnectTimeout = cmp.Or(pc.ConnectTimeout, connectTimeout)
	// A query whose time is up is cancelled, since the server would run it to its
	// end; where the server does not answer to that, the connection is closed.
	pc.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return cancelHandler{&pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: cancelDelay}}
	}
	pool := sql.OpenDB(pgConnector{stdlib.GetConnector(*pc)})
	cfg.MaxConns = cmp.Or(cfg.MaxConns, 32)
	pool.SetMaxOpenConns(cfg.MaxConns)
	pool.SetMaxIdleConns(cfg.MaxConns)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	pool.SetConnMaxLifetime(time.Hour) // follows a failover that moved the address
	if err := pool.PingContext(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	// A quarter of the connections is left for requests that write, and for the
	// server's own work.
	shares := share.New(max(1, cfg.MaxConns*3/4), max(1, cfg.MaxConns/2), readTimeout)
	return &DB{cfg: cfg, pool: pool, shares: shares, schema: schema{
		dialect: goose.DialectPostgres,
		open:    func() *sql.DB { return stdlib.OpenDB(*pc) },
	}}, nil
}

// writePostgres commits a closure in a transaction of its own. It runs at READ
// COMMITTED: what a write depends on is read with [Tx.ForUpdate], or checked by
// the write itself.
func (db *DB) writePostgres(ctx context.Context, do func(txn.Tx) error) ([]func(), error) {
	m := &db.cfg.Metrics
	for repeat := 0; ; repeat++ {
		start := time.Now()
		tx, err := db.transactPostgres(ctx, do)
		if err == nil {
			if m.Committed != nil {
				m.Committed(1, time.Since(start))
			}
			return tx.hints, nil
		}
		if repeat < maxRepeats && collided(err) {
			if m.Repeated != nil {
				m.Repeated(1)
			}
			if errors.Is(err, driver.ErrBadConn) {
				db.dropIdle() // the others will be dead too
			}
			if !pause(ctx, repeat) {
				return nil, ended(ctx)
			}
			continue
		}
		switch {
		case tx == nil && ctx.Err() != nil:
			return nil, ended(ctx) // it got no connection in time
		case errors.Is(err, driver.ErrBadConn):
			err = unavailable("The database connection was lost; retry.", err)
		case collided(err):
			err = unavailable("Too many changes of the same thing at the same moment; retry.", err)
		}
		if broken(err) != nil && m.Failed != nil {
			m.Failed(1, err)
		}
		return nil, err
	}
}

// pause waits before a repetition, unless ctx ends.
func pause(ctx context.Context, repeat int) bool {
	wait := time.Millisecond << min(repeat, 7)
	select {
	case <-time.After(wait/2 + rand.N(wait)):
		return true
	case <-ctx.Done():
		return false
	}
}

// dropIdle closes the connections that are not in use.
func (db *DB) dropIdle() {
	db.pool.SetMaxIdleConns(-1)
	db.pool.SetMaxIdleConns(db.cfg.MaxConns)
}

// transactPostgres returns a nil Tx if the transaction did not begin.
func (db *DB) transactPostgres(ctx context.Context, do func(txn.Tx) error) (*Tx, error) {
	conn, err := db.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	inner, cancel := context.WithTimeout(context.WithoutCancel(ctx), transactionTimeout)
	defer cancel()
	var pc *pgConn
	err = conn.Raw(func(dc any) (err error) {
		pc = dc.(*pgConn)
		pc.session, err = newPgSession(inner, pc)
		return err
	})
	if err != nil {
		return nil, err
	}
	session := pc.session
	defer func() {
		session.end()
		pc.session = nil
	}()
	tx := &Tx{cfg: &db.cfg, ctx: inner, pg: session, rows: conn}
	if err := tx.run(do); err != nil {
		if tx.failed != nil && (collided(tx.failed) || broken(tx.failed) != nil) {
			err = tx.failed // whatever the closure made of it
		}
		return tx, err
	}
	defer tx.tookCommit(time.Now())
	return tx, session.commit()
}

// collided says that the transaction may pass if it runs again.
func collided(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "40001" || e.Code == "40P01") || errors.Is(err, driver.ErrBadConn)
}

// postgresError returns the failures of the server as fault.Unavailable, and
// every other error unchanged.
func postgresError(err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	switch e.Code[:2] {
	case "08", "57", "58", "F0", "XX": // connection, operator intervention, system, configuration, internal
		return unavailable("The database is not available at the moment; retry in a few seconds.", err)
	case "53":
		return unavailable("The database is out of space or connections; retry in a few seconds.", err)
	}
	if e.Code == "25006" { // read-only: a standby
		return unavailable("The database takes no writes at the moment; retry in a few seconds.", err)
	}
	return err
}
