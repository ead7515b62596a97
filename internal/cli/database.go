package cli

import (
	"errors"
	"fmt"
	"strings"

	"agentd/internal/base/config"
	"agentd/internal/store/sqldb"
)

// database opens the database that the server uses, beside the server. One that
// does not exist is made only where create says so: a data directory that was
// mistyped must not look like an empty server.
func (inv *invocation) database(s config.Storage, create bool, use func(*sqldb.DB) error) error {
	cfg := sqldb.Config{URL: s.DatabaseURL.Reveal(), Readers: 1, MaxConns: 2}
	if cfg.URL == "" {
		if !create && !sqldb.Exists(s.DataDir) {
			return fmt.Errorf("there is no database in %s; set AGENTD_DATA_DIR (--data-dir) to the data directory of the server, "+
				"or make a new one:  %s migrate --data-dir %s", s.DataDir, inv.deps.Program, quote(s.DataDir))
		}
		if err := s.MakeDataDir(); err != nil {
			return err
		}
		cfg.Dir = s.DataDir
		inv.warnOfReaders(s)
	}
	db, err := sqldb.Open(inv, cfg)
	if err != nil {
		return err
	}
	return errors.Join(use(db), db.Close())
}

// warnOfReaders warns of a data directory or a secret key that others on the
// machine can read.
func (inv *invocation) warnOfReaders(s config.Storage) {
	if wide := config.ReadableByOthers(s.DataDir); len(wide) > 0 {
		inv.note("Warning: others on this machine can read %s. Keep them out:  chmod go-rwx %s",
			strings.Join(wide, " and "), strings.Join(quoted(wide), " "))
	}
}

// migrated opens the database at this program's version. A new one is brought
// there; an older one is not, as its server may be running.
func (inv *invocation) migrated(s config.Storage, use func(*sqldb.DB) error) error {
	return inv.database(s, false, func(db *sqldb.DB) error {
		version, err := db.Version(inv)
		if err != nil {
			return err
		}
		if version > sqldb.Latest() {
			return fmt.Errorf("%w (the database has version %d of the schema, this program %d)", sqldb.ErrNewer, version, sqldb.Latest())
		}
		if version != 0 && version != sqldb.Latest() {
			return fmt.Errorf("the database has version %d of the schema and this program needs %d; start the agentd that belongs to it, "+
				"or migrate first: agentd migrate", version, sqldb.Latest())
		}
		if err := db.Migrate(inv); err != nil {
			return err
		}
		return use(db)
	})
}

type migrateCommand struct {
	Storage config.Storage `embed:"" group:"Storage"`
	Down    *int64         `xor:"what" placeholder:"VERSION" help:"Revert every migration after this version, with their data; 0 reverts all."`
	Status  bool           `xor:"what" help:"Only print the version of the database."`
}

// Run implements the command.
func (cmd *migrateCommand) Run(inv *invocation) error {
	return inv.database(cmd.Storage, !cmd.Status && cmd.Down == nil, func(db *sqldb.DB) error {
		before, err := db.Version(inv)
		if err != nil {
			return err
		}
		switch {
		case cmd.Status:
			fmt.Fprintf(inv.stdout, "The database has version %d of the schema; this program has %d.\n", before, sqldb.Latest())
			return nil
		case cmd.Down != nil && (*cmd.Down < 0 || *cmd.Down > before):
			return fmt.Errorf("the database has version %d of the schema; it can go down to 0 to %d", before, before)
		case cmd.Down != nil:
			err = db.MigrateDown(inv, *cmd.Down)
		default:
			err = db.Migrate(inv)
		}
		if err != nil {
			return err
		}
		after, err := db.Version(inv)
		if err != nil {
			return err
		}
		if after == before {
			fmt.Fprintf(inv.stdout, "The database has version %d of the schema already.\n", after)
		} else {
			fmt.Fprintf(inv.stdout, "The database went from version %d of the schema to %d.\n", before, after)
		}
		return nil
	})
}
