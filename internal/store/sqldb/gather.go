package sqldb

import (
	"maps"
	"slices"
	"strings"
)

// Gathered is what the transactions that share a commit write together: sums, of which
// each transaction would else write a row of its own.
type Gathered interface {
	// WriteTx writes all of it, in one of the transactions.
	WriteTx(tx *Tx) error
}

// gatherings are what a group's transactions have gathered, by table.
type gatherings map[string]Gathered

// Gather returns what this transaction and those that share its commit write to a
// table together, to be added to; first makes it for the first of them. It is written
// before the commit, and before a statement that names the table. It returns nil where
// a transaction shares its commit with none, as on PostgreSQL: it writes its rows
// itself.
//
// What was added goes with the transaction: if it fails, that of all is discarded, and
// the others run again.
func (tx *Tx) Gather(table string, first func() Gathered) Gathered {
	if tx.shared == nil || tx.failed != nil {
		return nil
	}
	g, ok := tx.shared[table]
	if !ok {
		g = first()
		tx.shared[table] = g
	}
	tx.dirty = true
	return g
}

// before writes what was gathered for the tables that a statement names.
func (g gatherings) before(query string, tx *Tx) error {
	for table := range g {
		if strings.Contains(query, table) {
			if err := g.write(table, tx); err != nil {
				return err
			}
		}
	}
	return nil
}

// end writes what is left.
func (g gatherings) end(tx *Tx) error {
	for _, table := range slices.Sorted(maps.Keys(g)) {
		if err := g.write(table, tx); err != nil {
			return err
		}
	}
	return nil
}

func (g gatherings) write(table string, tx *Tx) error {
	what := g[table]
	delete(g, table)
	return what.WriteTx(tx)
}
