package cli

import (
	"fmt"
	"strconv"

	"agentd/internal/base/clock"
	"agentd/internal/base/config"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/worksql"
)

type nodesCommand struct {
	Storage config.Storage `embed:"" group:"Storage"`
	All     bool           `help:"Also list nodes that have not run for up to a week."`
	JSON    bool           `help:"Print the result as JSON."`
}

// Run implements the command.
func (cmd *nodesCommand) Run(inv *invocation) error {
	return inv.migrated(cmd.Storage, func(db *sqldb.DB) error {
		listed, err := worksql.NewNodes(db, clock.System{}).List(inv)
		if err != nil {
			return err
		}
		shown := []worksql.Listed{}
		for _, n := range listed {
			if n.Running || cmd.All {
				shown = append(shown, n)
			}
		}
		if cmd.JSON {
			return inv.printAny(items[worksql.Listed]{Items: shown})
		}
		rows := make([][]string, len(shown))
		for i, n := range shown {
			rows[i] = []string{
				n.Name, n.Host, n.Version, n.Role, strconv.Itoa(n.Runs), formatTime(inv.now(), n.Started), formatTime(inv.now(), n.Seen),
			}
		}
		if len(rows) == 0 {
			inv.note("No node runs.")
		}
		return inv.table([]string{"NODE", "~HOST", "VERSION", "ROLE", "RUNS", "STARTED", "SEEN"}, rows)
	})
}

// versionsOf says which versions run, and how many nodes of each.
func versionsOf(nodes []worksql.Listed) (text string, running int) {
	counts := map[string]int{}
	var order []string
	for _, n := range nodes {
		if !n.Running {
			continue
		}
		running++
		if counts[n.Version]++; counts[n.Version] == 1 {
			order = append(order, n.Version)
		}
	}
	for i, version := range order {
		if i > 0 {
			text += ", "
		}
		name := version
		if name == "" {
			name = "a version that does not say which"
		}
		text += fmt.Sprintf("%s of %s", plural(counts[version], "node"), oneLine(name))
	}
	return text, running
}
