package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentd/internal/base/clock"
	"agentd/internal/base/config"
	"agentd/internal/base/secret"
	"agentd/internal/store/secretsql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/worksql"
)

type upgradeCheckCommand struct {
	secretSettings
	JSON bool `help:"Print the result as JSON."`
}

// upgradeReport is what stands before an upgrade to this program.
type upgradeReport struct {
	Go       bool             `json:"go"`
	Program  string           `json:"program"`
	Schema   int64            `json:"schema"`
	Wanted   int64            `json:"schema_wanted"`
	Pending  []sqldb.Pending  `json:"pending"`
	Nodes    []worksql.Listed `json:"nodes"`
	Problems []string         `json:"problems"` // for which not to go
	Notes    []string         `json:"notes"`
}

// keysMigration is the migration since which the keys of sealed values are recorded.
const keysMigration = 31

// Run implements the command. It changes nothing.
func (cmd *upgradeCheckCommand) Run(inv *invocation) error {
	r := upgradeReport{
		Program: inv.deps.Version, Wanted: sqldb.Latest(),
		Pending: []sqldb.Pending{}, Nodes: []worksql.Listed{}, Problems: []string{}, Notes: []string{},
	}
	if err := config.CheckEnvironment(inv.deps.Environ()); err != nil {
		r.Problems = append(r.Problems, strings.Split(err.Error(), "\n")...)
	}
	err := inv.database(cmd.Storage, false, func(db *sqldb.DB) error { return cmd.examine(inv, db, &r) })
	if err != nil {
		return unreadable{fmt.Errorf("it cannot be told whether the upgrade will do: %w", err)}
	}
	r.Go = len(r.Problems) == 0
	if cmd.JSON {
		err = inv.printAny(r)
	} else {
		r.say(inv)
	}
	if err == nil && !r.Go {
		err = fmt.Errorf("do not upgrade yet: %s above", plural(len(r.Problems), "problem"))
	}
	return err
}

func (cmd *upgradeCheckCommand) examine(inv *invocation, db *sqldb.DB, r *upgradeReport) (err error) {
	if r.Schema, err = db.Version(inv); err != nil {
		return err
	}
	if r.Schema == 0 {
		r.Notes = append(r.Notes, "The database is empty; the first start makes its tables.")
		return nil
	}
	if r.Pending, err = sqldb.ListPending(inv, db); errors.Is(err, sqldb.ErrNewer) {
		r.Problems, r.Pending = append(r.Problems, err.Error()), []sqldb.Pending{}
		return nil
	} else if err != nil {
		return err
	}
	if r.Pending == nil {
		r.Pending = []sqldb.Pending{}
	}
	applied, err := db.Applied(inv)
	if err != nil {
		return err
	}
	if r.Nodes, err = worksql.NewNodes(db, clock.System{}).List(inv); err != nil {
		return err
	}
	versions, running := versionsOf(r.Nodes)
	if running > 0 && len(r.Pending) > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s is running: stop all nodes before the migration, and make a backup.", versions))
	} else if running > 0 {
		r.Notes = append(r.Notes, versions+" is running; nodes can be replaced one by one.")
	}
	if !db.Postgres() && len(r.Pending) > 0 {
		r.Notes = append(r.Notes, "On SQLite every write waits while a migration runs.")
	}
	if !slices.Contains(applied, keysMigration) {
		return nil
	}
	return cmd.examineKeys(inv, db, r)
}

// examineKeys finds out whether the secret keys that are configured are enough.
func (cmd *upgradeCheckCommand) examineKeys(inv *invocation, db *sqldb.DB, r *upgradeReport) error {
	keys, err := config.FoundSecretKeys(cmd.SecretKey, cmd.Storage)
	if err != nil {
		r.Problems = append(r.Problems, err.Error())
		return nil
	}
	if len(keys) == 0 {
		r.Notes = append(r.Notes, "No secret key is configured here, so it was not looked whether sealed values can be opened.")
		return nil
	}
	box, err := secret.NewBox(keys...)
	if err != nil {
		r.Problems = append(r.Problems, err.Error())
		return nil
	}
	missing, err := secretsql.New(db, box, clock.System{}).Missing(inv)
	for _, id := range missing {
		r.Problems = append(r.Problems, fmt.Sprintf("Sealed values need the secret key %s, which AGENTD_SECRET_KEY does not have.", id))
	}
	return err
}

// say prints the report for a person.
func (r *upgradeReport) say(inv *invocation) {
	inv.say("This program is %s and needs version %d of the schema; the database has %d.", r.Program, r.Wanted, r.Schema)
	for _, p := range r.Pending {
		inv.say("Migration %d (%s):", p.Number, p.Name)
		for _, does := range p.Does {
			inv.say("  %s", does)
		}
		if len(p.Waits) > 0 {
			inv.say("  Meanwhile writes wait to: %s", strings.Join(p.Waits, ", "))
		}
	}
	for _, note := range r.Notes {
		inv.say("%s", note)
	}
	for _, problem := range r.Problems {
		inv.say("Problem: %s", problem)
	}
	if r.Go {
		inv.say("Go.")
	}
}
