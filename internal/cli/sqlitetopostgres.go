package cli

import (
	"errors"
	"fmt"
	"time"

	"agentd/internal/base/config"
	"agentd/internal/store/backupsql"
	"agentd/internal/store/sqldb"
)

type sqliteToPostgresCommand struct {
	Storage config.Storage `embed:"" group:"Storage"`
	JSON    bool           `help:"Print the result as JSON."`
}

// Run implements the command.
func (cmd *sqliteToPostgresCommand) Run(inv *invocation) (err error) {
	if cmd.Storage.DatabaseURL.Empty() {
		return usageError("set AGENTD_DATABASE_URL (--database-url) to the PostgreSQL database that everything is moved to")
	}
	dir := cmd.Storage.DataDir
	if !sqldb.Exists(dir) {
		return fmt.Errorf("there is no SQLite database in %s; set AGENTD_DATA_DIR (--data-dir) to the data directory of the server", dir)
	}
	release, err := sqldb.LockDir(dir) // what is written meanwhile would be left behind
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	source, err := sqldb.Open(inv, sqldb.Config{Dir: dir, Readers: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	said := time.Now()
	target := sqldb.Config{URL: cmd.Storage.DatabaseURL.Reveal(), MaxConns: 2}
	totals, err := backupsql.Copy(inv, source, target, func(doing, table string, t backupsql.Totals) {
		if t.Rows%1000 == 0 && time.Since(said) > 5*time.Second {
			said = time.Now()
			inv.note("%s %s: %d rows so far", doing, table, t.Rows)
		}
	})
	if errors.Is(err, sqldb.ErrNotEmpty) {
		return fmt.Errorf("%w; everything is moved into an empty database only", err)
	}
	if err != nil {
		return err
	}
	if cmd.JSON {
		return inv.printAny(totals)
	}
	inv.say("Moved %d rows of %d tables, and compared each. Start the server with AGENTD_DATABASE_URL and the same data "+
		"directory, which keeps its secret key; the search index is made again in the background.", totals.Rows, totals.Tables)
	inv.note("The SQLite database stays in %s. Remove agentd.db there when you need it no more.", dir)
	return nil
}
