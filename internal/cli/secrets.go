package cli

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/config"
	"agentd/internal/base/secret"
	"agentd/internal/store/secretsql"
	"agentd/internal/store/sqldb"
)

// secretSettings are the settings of the commands that use the secret keys.
type secretSettings struct {
	Storage   config.Storage `embed:"" group:"Storage"`
	SecretKey secret.String  `env:"AGENTD_SECRET_KEY" group:"Security" placeholder:"BASE64" help:"The secret keys, several by commas: the first one seals. Empty: those in the data directory."`
}

// open opens the database with the secret keys.
func (s *secretSettings) open(inv *invocation, use func(*secretsql.Keys, *secret.Box) error) error {
	return s.withDatabase(inv, func(db *sqldb.DB, box *secret.Box) error { return use(secretsql.New(db, box, clock.System{}), box) })
}

// withDatabase opens the database, and the box of the secret keys.
func (s *secretSettings) withDatabase(inv *invocation, use func(*sqldb.DB, *secret.Box) error) error {
	masters, err := config.SecretKeys(s.SecretKey, s.Storage)
	if err != nil {
		return err
	}
	box, err := secret.NewBox(masters...)
	if err != nil {
		return err
	}
	return inv.migrated(s.Storage, func(db *sqldb.DB) error { return use(db, box) })
}

type secretsRotateCommand struct {
	secretSettings
	JSON bool `help:"Print the result as JSON."`
}

// progressEvery is how often a rotation says how far it is.
const progressEvery = time.Second

// Run implements the command.
func (cmd *secretsRotateCommand) Run(inv *invocation) error {
	return cmd.open(inv, func(keys *secretsql.Keys, box *secret.Box) error {
		var said time.Time
		r, err := keys.Rotate(inv, func(table string, resealed int) {
			if inv.now().Sub(said) >= progressEvery {
				said = inv.now()
				inv.note("%s: %d sealed again", table, resealed)
			}
		})
		if err != nil {
			return err
		}
		if cmd.JSON {
			if err := inv.printAny(r); err != nil {
				return err
			}
		} else {
			fmt.Fprintf(inv.stdout, "Sealed %d rows again with the key %s.\n", r.Resealed, box.KeyIDs()[0])
		}
		return inv.rotated(r)
	})
}

// rotated says what a rotation has left, and fails if that is anything.
func (inv *invocation) rotated(r *secretsql.Result) error {
	for _, id := range r.Retired {
		inv.note("Nothing needs the key %s any more: take it away from AGENTD_SECRET_KEY and restart.", id)
	}
	for _, broken := range r.Broken {
		inv.note("No key opens %s", broken)
	}
	for _, c := range r.Left {
		inv.note("%d values of %s still need %s", c.Rows, c.Table, keyName(c.KeyID))
	}
	for _, s := range r.Sealing {
		inv.note("The server %s still seals with the key %s: restart it with the new key first in AGENTD_SECRET_KEY.", s.Node, s.KeyIDs[0])
	}
	if !r.Done() {
		return errors.New("the rotation is not complete; run it again when what stands above is settled, and keep all keys until then")
	}
	return nil
}

func keyName(id secret.KeyID) string {
	if id == "" {
		return "a key that they do not name"
	}
	return "the key " + string(id)
}

type secretsStatusCommand struct {
	secretSettings
	JSON bool `help:"Print the result as JSON."`
}

// Run implements the command.
func (cmd *secretsStatusCommand) Run(inv *invocation) error {
	return cmd.open(inv, func(keys *secretsql.Keys, box *secret.Box) error {
		counts, err := keys.Count(inv)
		if err != nil {
			return err
		}
		servers, err := keys.Servers(inv)
		if err != nil {
			return err
		}
		if cmd.JSON {
			return inv.printAny(struct {
				KeyIDs  []secret.KeyID     `json:"key_ids"`
				Values  []secretsql.Count  `json:"values"`
				Servers []secretsql.Server `json:"servers"`
			}{box.KeyIDs(), counts, servers})
		}
		rows := make([][]string, len(counts))
		for i, c := range counts {
			rows[i] = []string{c.Table, string(c.KeyID), strconv.Itoa(c.Rows)}
		}
		inv.note("The key %s seals.", box.KeyIDs()[0])
		return inv.table([]string{"TABLE", "KEY", "VALUES"}, rows)
	})
}

type secretsForgetCommand struct {
	secretSettings
	ID string `arg:"" name:"key-id" help:"Id of the lost key, as the start names it."`
}

// Run implements the command.
func (cmd *secretsForgetCommand) Run(inv *invocation) error {
	return cmd.open(inv, func(keys *secretsql.Keys, _ *secret.Box) error {
		if err := keys.Forget(inv, secret.KeyID(cmd.ID)); err != nil {
			return err
		}
		fmt.Fprintf(inv.stdout, "Forgot the key %s. What is sealed with it cannot be read; set these secrets again.\n", oneLine(cmd.ID))
		return nil
	})
}
