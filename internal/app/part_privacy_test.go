package app

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/personal"
	"agentd/internal/operation/privacy/privacysql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// namesPeople matches columns that can name a person.
var namesPeople = regexp.MustCompile(
	`(^|_)(user|users|email|mail|person|people|member|address|ip|author|visitor|phone|by)(_id|_hash)?(_verified)?$|(^|_)key_ids?$|credential`)

// notPeople are columns that match and name nobody, and why.
var notPeople = map[string]string{
	"secret_keys.key_id":           "a key of the deployment that seals secrets",
	"secret_servers.key_ids":       "the same",
	"runs.continued_by":            "a run",
	"memory_entries.superseded_by": "another entry",
}

// A table in which a person can stand is declared in package personal by the package
// that has it, so that nothing is left out of the answer about what is kept of them.
func TestEveryColumnOfPeopleIsDeclared(t *testing.T) {
	t.Parallel()
	columns := columnsOf(t, sqldbtest.Open(t, sqldbtest.SQLite))
	declared := map[string]bool{}
	for _, table := range personalTables {
		for _, column := range table.People {
			declared[table.Name+"."+column] = true
		}
		used := slices.Concat(table.People, table.Shown, table.Order)
		if table.By != personal.Nobody {
			used = append(used, table.Column)
		}
		for _, column := range used {
			if !slices.Contains(columns, table.Name+"."+column) {
				t.Errorf("the declaration of %s names the column %s, which it does not have", table.Name, column)
			}
		}
		if table.Why == "" && (!table.Exports() && table.By != personal.Part || table.Erased != personal.Deleted) {
			t.Errorf("the declaration of %s does not say why its rows are not exported, or not erased", table.Name)
		}
	}
	for _, column := range columns {
		_, name, _ := strings.Cut(column, ".")
		if namesPeople.MatchString(name) && !declared[column] && notPeople[column] == "" {
			t.Errorf("%s can name a person, and no package declares it: add a row to Personal of the package of its table", column)
		}
	}
}

func columnsOf(t *testing.T, db *sqldb.DB) []string {
	t.Helper()
	rows, err := db.Query(t.Context(), `SELECT m.name || '.' || c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := sqldb.ScanStrings(rows)
	if err != nil || len(all) < 500 {
		t.Fatal(len(all), err)
	}
	return all
}

// The statements that are made of the declarations are valid on both databases, and walk
// indexes: the database of the test checks that.
func TestDeclaredTablesAreRead(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := privacysql.New(db)
		for _, table := range personalTables {
			if table.By == personal.Nobody {
				continue
			}
			if n, err := s.CountRows(t.Context(), "t", &table, "x", 10); n != 0 || err != nil {
				t.Errorf("%s: %d %v", table.Name, n, err)
			}
			if table.Exports() {
				if rows, err := s.ListRows(t.Context(), "t", &table, "x", nil, 10); len(rows) != 0 || err != nil {
					t.Errorf("%s: %v %v", table.Name, rows, err)
				}
			}
			err := db.Write(t.Context(), func(tx txn.Tx) error {
				if table.Erased == personal.Kept {
					return nil
				}
				if table.Erased == personal.WhenEnded {
					ids, err := s.ListEndedTx(tx, "t", &table, "x", 10)
					if len(ids) != 0 || err != nil {
						t.Errorf("%s: %v %v", table.Name, ids, err)
					}
					return s.DeleteRowTx(tx, "t", &table, "x")
				}
				_, err := s.DeleteRowsTx(tx, "t", &table, "x")
				return err
			})
			if err != nil {
				t.Errorf("%s: %v", table.Name, err)
			}
		}
	})
}
