// Package secretsql keeps track of the secret keys that the sealed values of a
// database need, and seals them with another one while servers run.
//
// [Columns] lists the places of sealed values. A value names its key, so that
// [Keys.Rotate] finds those to seal again, and nothing needs to be remembered
// between two calls of it.
package secretsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
)

const (
	// Beat is how often a server reports which keys it has.
	Beat = 30 * time.Second
	// silence is how long after its last report a server counts as running.
	silence = 3 * Beat

	keptContext = "kept/{name}"
)

// Keys are the secret keys of a database. They are safe for concurrent use.
type Keys struct {
	db    *sqldb.DB
	box   *secret.Box
	clock clock.Clock
}

// New returns the keys of a database; box has those that are configured.
func New(db *sqldb.DB, box *secret.Box, clk clock.Clock) *Keys { return &Keys{db, box, clk} }

// Server is a server that runs, and the keys that it has.
type Server struct {
	Node   string         `json:"node"`
	KeyIDs []secret.KeyID `json:"key_ids"` // the first one seals
	SeenAt time.Time      `json:"seen_at"`
}

// MissingKeyError says which values need keys that are not configured.
type MissingKeyError struct {
	ID   secret.KeyID
	Rows []Count
}

// Error implements error.
func (e *MissingKeyError) Error() string {
	var where []string
	for _, c := range e.Rows {
		where = append(where, fmt.Sprintf("%d in %s", c.Rows, c.Table))
	}
	return fmt.Sprintf("AGENTD_SECRET_KEY lacks the key %s, which sealed values need (%s). Put it back behind a comma, run "+
		"agentd admin secrets rotate, and take it away then; if it is lost: agentd admin secrets forget %s, after which these values "+
		"cannot be read", e.ID, strings.Join(where, ", "), e.ID)
}

// StrangerError says that a server with other secret keys runs on the database.
type StrangerError struct{ Server Server }

// Error implements error.
func (e *StrangerError) Error() string {
	return fmt.Sprintf("a server with another secret key (%s) runs on this database: the node %s. Give all nodes of a database the same "+
		"AGENTD_SECRET_KEY; another cluster needs a database of its own. If that node has stopped, wait %d seconds",
		e.Server.KeyIDs[0], e.Server.Node, int(silence.Seconds()))
}

// CheckServers makes sure that no other server than node runs on the database that
// shares no secret key with this one: each would seal what the other cannot open.
// Errors: *StrangerError.
func (k *Keys) CheckServers(ctx context.Context, node string) error {
	servers, err := k.Servers(ctx)
	if err != nil {
		return err
	}
	for _, s := range servers {
		if s.Node != node && !slices.ContainsFunc(s.KeyIDs, func(id secret.KeyID) bool { return slices.Contains(k.box.KeyIDs(), id) }) {
			return &StrangerError{s}
		}
	}
	return nil
}

// Check makes sure that every key is configured that sealed values need, and
// records the configured ones before anything is sealed with them. Errors:
// *MissingKeyError.
func (k *Keys) Check(ctx context.Context) error {
	known, err := k.recorded(ctx)
	if err != nil {
		return err
	}
	for _, id := range known {
		if slices.Contains(k.box.KeyIDs(), id) {
			continue
		}
		needed, err := k.needing(ctx, id)
		if err != nil {
			return err
		}
		if len(needed) > 0 {
			return &MissingKeyError{id, needed}
		}
		if err := k.Forget(ctx, id); err != nil {
			return err
		}
	}
	ids := k.box.KeyIDs()
	if len(known) > 0 {
		ids = ids[:1] // the others seal nothing that was not recorded
	}
	return k.db.Write(ctx, func(tx txn.Tx) error {
		for _, id := range ids {
			if err := k.recordTx(tx, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// Missing lists the keys that sealed values need and that are not configured. Unlike
// [Keys.Check] it changes nothing.
func (k *Keys) Missing(ctx context.Context) ([]secret.KeyID, error) {
	known, err := k.recorded(ctx)
	if err != nil {
		return nil, err
	}
	var missing []secret.KeyID
	for _, id := range known {
		if slices.Contains(k.box.KeyIDs(), id) {
			continue
		}
		needed, err := k.needing(ctx, id)
		if err != nil {
			return nil, err
		}
		if len(needed) > 0 {
			missing = append(missing, id)
		}
	}
	return missing, nil
}

func (k *Keys) recordTx(tx txn.Tx, id secret.KeyID) error {
	_, err := sqldb.From(tx).Exec(sqldb.Insert(`secret_keys`, `key_id, created_at`)+` ON CONFLICT DO NOTHING`,
		string(id), sqldb.Micros(k.clock.Now()))
	return err
}

func (k *Keys) recorded(ctx context.Context) ([]secret.KeyID, error) {
	return sqldb.Collect(k.db.Reader(ctx), `SELECT key_id FROM secret_keys ORDER BY created_at, key_id`, nil,
		func(r sqldb.Row) (id secret.KeyID, err error) { return id, r.Scan(&id) })
}

// Forget drops the record of a key. The values that are sealed with it are not
// touched; they cannot be opened without it.
func (k *Keys) Forget(ctx context.Context, id secret.KeyID) error {
	return k.db.Write(ctx, func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(`DELETE FROM secret_keys WHERE key_id = ?`, string(id))
		return err
	})
}

// Report records that a server runs, and the keys that it has.
func (k *Keys) Report(ctx context.Context, node string) error {
	ids := make([]string, 0, 2)
	for _, id := range k.box.KeyIDs() {
		ids = append(ids, string(id))
	}
	return k.db.Write(ctx, func(tx txn.Tx) error {
		if err := k.recordTx(tx, k.box.KeyIDs()[0]); err != nil {
			return err
		}
		_, err := sqldb.From(tx).Exec(sqldb.Insert(`secret_servers`, `node, key_ids, seen_at`)+` ON CONFLICT (node) DO UPDATE SET `+
			sqldb.Excluded(`key_ids, seen_at`), node, strings.Join(ids, ","), sqldb.Micros(k.clock.Now()))
		return err
	})
}

// Stopped records that a server ends.
func (k *Keys) Stopped(ctx context.Context, node string) error {
	return k.db.Write(ctx, func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(`DELETE FROM secret_servers WHERE node = ? OR seen_at < ?`, node,
			sqldb.Micros(k.clock.Now().Add(-24*time.Hour)))
		return err
	})
}

// Servers lists the servers that run.
func (k *Keys) Servers(ctx context.Context) ([]Server, error) {
	return sqldb.Collect(k.db.Reader(ctx), `SELECT node, key_ids, seen_at FROM secret_servers WHERE seen_at > ? ORDER BY node`,
		[]any{sqldb.Micros(k.clock.Now().Add(-silence))}, func(r sqldb.Row) (s Server, err error) {
			var ids string
			var seen int64
			err = r.Scan(&s.Node, &ids, &seen)
			for id := range strings.SplitSeq(ids, ",") {
				s.KeyIDs = append(s.KeyIDs, secret.KeyID(id))
			}
			s.SeenAt = sqldb.Time(seen)
			return s, err
		})
}

// Kept returns a secret of the deployment that outlives its secret keys, such as
// one that stored hashes are made with. It is made at the first call, from the
// last secret key, which is the oldest one.
func (k *Keys) Kept(ctx context.Context, name string) ([]byte, error) {
	bound := strings.ReplaceAll(keptContext, "{name}", name)
	for {
		var sealed []byte
		err := k.db.QueryRow(ctx, `SELECT sealed FROM kept_secrets WHERE name = ?`, name).Scan(&sealed)
		if err == nil {
			return k.box.Open(sealed, bound)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		derived := k.box.DeriveAll(name)
		sealed = k.box.Seal(derived[len(derived)-1], bound)
		if err := k.db.Write(ctx, func(tx txn.Tx) error {
			_, err := sqldb.From(tx).Exec(sqldb.Insert(`kept_secrets`, `name, sealed`)+` ON CONFLICT DO NOTHING`, name, sealed)
			return err
		}); err != nil {
			return nil, err
		}
	}
}
