package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/config"
	"agentd/internal/base/secret"
	"agentd/internal/store/backupsql"
	"agentd/internal/store/secretsql"
	"agentd/internal/store/sqldb"
)

// backupSettings are the settings of the commands on backups.
type backupSettings struct {
	secretSettings
	Keys config.BackupKeys `embed:"" group:"Backups"`
	JSON bool              `help:"Print the result as JSON."`
}

// standardStream is the name of a file that stands for the standard streams.
const standardStream = "-"

// backupResult is what the commands on backups print as JSON.
type backupResult struct {
	File string `json:"file"`
	backupsql.Header
	backupsql.Totals
	Bytes int64 `json:"bytes,omitzero"`
}

type backupCommand struct {
	backupSettings
	File string `arg:"" help:"File to write, which must not exist; - writes to the standard output."`
}

// Run implements the command.
func (cmd *backupCommand) Run(inv *invocation) error {
	o, err := cmd.options(inv)
	if err != nil {
		return err
	}
	done := backupResult{File: cmd.File}
	err = inv.database(cmd.Storage, false, func(db *sqldb.DB) error {
		return inv.writeFile(cmd.File, func(w io.Writer) (err error) {
			counted := &countingWriter{Writer: w}
			done.Header, done.Totals, err = backupsql.Write(inv, db, counted, o)
			done.Bytes = counted.n
			return err
		})
	})
	if err != nil {
		return err
	}
	if o.Passphrase.Empty() {
		inv.note("Keep the secret key elsewhere too: without it, what is sealed in the restored database cannot be read. " +
			"With --passphrase-file the backup carries it.")
	}
	done.Carried = ""
	if cmd.JSON && cmd.File != standardStream {
		return inv.printAny(done)
	}
	say := inv.say
	if cmd.File == standardStream {
		say = inv.note
	}
	say("%s has %d rows of %d tables (%s), sealed with the %s %s.",
		cmd.File, done.Rows, done.Tables, mebibytes(done.Bytes), done.Key, done.KeyID)
	return nil
}

// options returns how the backup is sealed.
func (cmd *backupCommand) options(inv *invocation) (o backupsql.Options, err error) {
	o = backupsql.Options{Version: inv.deps.Version, Now: inv.now(), Progress: inv.backupProgress("")}
	if o.Carry.SecretKeys, err = config.FoundSecretKeys(cmd.SecretKey, cmd.Storage); err != nil {
		return o, err
	}
	if o.Carry.BackupKeys, err = cmd.Keys.Load(); err != nil {
		return o, err
	}
	if o.Passphrase, err = cmd.Keys.Passphrase(backupsql.MinPassphrase); err != nil {
		return o, err
	}
	switch {
	case len(o.Carry.BackupKeys) > 0:
		o.Key, o.Keys = backupsql.BackupKey, o.Carry.BackupKeys
	case len(o.Carry.SecretKeys) > 0:
		o.Key, o.Keys = backupsql.SecretKey, o.Carry.SecretKeys
	default:
		return o, errors.New("there is no key to seal the backup with; set AGENTD_SECRET_KEY as the server has it, " +
			"or AGENTD_BACKUP_KEY (--key-file)")
	}
	return o, nil
}

// writeFile writes a file that appears when it is complete.
func (inv *invocation) writeFile(path string, write func(io.Writer) error) error {
	if path == standardStream {
		return write(inv.stdout)
	}
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s exists already; choose another name", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // only the link stays
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path)
}

type restoreCommand struct {
	backupSettings
	File string `arg:"" help:"File to read; - reads from the standard input."`
}

// Run implements the command.
func (cmd *restoreCommand) Run(inv *invocation) error {
	return inv.readBackup(cmd.File, &cmd.backupSettings, func(r *backupsql.Reader, carried backupsql.Carried) error {
		target := sqldb.Config{URL: cmd.Storage.DatabaseURL.Reveal(), Readers: 1, MaxConns: 2}
		if target.URL == "" {
			if err := emptyDirectory(cmd.Storage.DataDir); err != nil {
				return err
			}
			target.Dir = cmd.Storage.DataDir
		}
		secretKeys, err := config.FoundSecretKeys(cmd.SecretKey, cmd.Storage)
		if err != nil {
			return err
		}
		keep := func() error {
			if len(secretKeys) > 0 || len(carried.SecretKeys) == 0 {
				return nil
			}
			secretKeys = carried.SecretKeys
			return config.KeepSecretKeys(cmd.Storage, secretKeys)
		}
		totals, err := r.Restore(inv, target, keep, inv.backupProgress("restoring "))
		if errors.Is(err, sqldb.ErrNotEmpty) {
			return fmt.Errorf("%w; a backup is restored into an empty directory or database only", err)
		}
		if err != nil {
			return err
		}
		if err := cmd.checkKeys(inv, secretKeys); err != nil {
			return err
		}
		if r.Header.Carried = ""; cmd.JSON {
			return inv.printAny(backupResult{File: cmd.File, Header: r.Header, Totals: totals})
		}
		inv.say("Restored %d rows of %d tables, as they were at %s.", totals.Rows, totals.Tables, r.Header.CreatedAt.Format(time.RFC3339))
		return nil
	})
}

// emptyDirectory refuses a data directory that is in use. A secret key may be there
// already, and what a restoration that was killed has left.
func emptyDirectory(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if !slices.Contains([]string{"secret.key", "serve.lock", "migrate.lock", sqldb.Unfinished}, e.Name()) {
			return fmt.Errorf("%s is not empty: it has %s; a backup is restored into an empty directory or database only", dir, e.Name())
		}
	}
	return err
}

// checkKeys says which secret keys the restored values need and nobody gave.
func (cmd *restoreCommand) checkKeys(inv *invocation, keys [][]byte) error {
	if len(keys) == 0 {
		inv.note("The server needs the secret key of the backup's server: put it into AGENTD_SECRET_KEY, " +
			"or into secret.key in the data directory.")
		return nil
	}
	box, err := secret.NewBox(keys...)
	if err != nil {
		return err
	}
	return inv.database(cmd.Storage, false, func(db *sqldb.DB) error {
		missing, err := secretsql.New(db, box, clock.System{}).Missing(inv)
		for _, id := range missing {
			inv.note("The server also needs the secret key %s, which is not configured here.", id)
		}
		return err
	})
}

type verifyCommand struct {
	backupSettings
	File string `arg:"" help:"File to read; - reads from the standard input."`
}

// Run implements the command.
func (cmd *verifyCommand) Run(inv *invocation) error {
	return inv.readBackup(cmd.File, &cmd.backupSettings, func(r *backupsql.Reader, _ backupsql.Carried) error {
		totals, err := r.Verify(inv)
		if err != nil {
			return err
		}
		if r.Header.Carried = ""; cmd.JSON {
			return inv.printAny(backupResult{File: cmd.File, Header: r.Header, Totals: totals})
		}
		inv.say("The backup is whole: %d rows of %d tables, as they were at %s.",
			totals.Rows, totals.Tables, r.Header.CreatedAt.Format(time.RFC3339))
		return nil
	})
}

// readBackup opens a backup with whatever keys there are.
func (inv *invocation) readBackup(path string, s *backupSettings, use func(*backupsql.Reader, backupsql.Carried) error) error {
	in := io.Reader(inv.lines.in)
	if path != standardStream {
		f, err := os.Open(path)
		if err != nil {
			return unreadable{err}
		}
		defer f.Close()
		in = f
	}
	r, err := backupsql.NewReader(in)
	if errors.Is(err, backupsql.ErrNoBackup) {
		return unreadable{fmt.Errorf("%s: %w", path, err)}
	}
	if err != nil {
		return err
	}
	defer r.Close()
	keys, err := s.Keys.Load()
	if err != nil {
		return err
	}
	secretKeys, err := config.FoundSecretKeys(s.SecretKey, s.Storage)
	if err != nil {
		return err
	}
	var carried backupsql.Carried
	passphrase, err := s.Keys.Passphrase(0)
	if err != nil {
		return err
	}
	if !passphrase.Empty() {
		if carried, err = r.Header.Unseal(passphrase); err != nil {
			return err
		}
	}
	if err := r.Open(slices.Concat(keys, secretKeys, carried.BackupKeys, carried.SecretKeys)); err != nil {
		if _, wrong := errors.AsType[*backupsql.KeyError](err); wrong {
			return fmt.Errorf("%w; set AGENTD_SECRET_KEY, AGENTD_BACKUP_KEY (--key-file), or --passphrase-file if it was made with one", err)
		}
		return err
	}
	return use(r, carried)
}

// backupProgress returns what says every few seconds how far a command is.
func (inv *invocation) backupProgress(doing string) func(table string, t backupsql.Totals) {
	const every = 5 * time.Second
	said := time.Now()
	return func(table string, t backupsql.Totals) {
		if t.Rows%1000 != 0 || time.Since(said) < every {
			return
		}
		said = time.Now()
		inv.note("%s%s: %d rows so far", doing, table, t.Rows)
	}
}

type countingWriter struct {
	io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += int64(n)
	return n, err
}

// mebibytes returns a size as a person would say it.
func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
