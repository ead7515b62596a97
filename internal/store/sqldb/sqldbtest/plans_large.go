package sqldbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
)

// large is a database whose planner takes its tables for large. Nothing is read
// from it: statements are explained only.
type large struct {
	*sqldb.DB
	remove  func() error
	indexes map[string][]index  // by table
	columns map[string][]string // by table
}

type index struct {
	name, where string // where is the condition of a partial index, as in its CREATE INDEX
	columns     []string
	unique      bool
}

func openLarge(ctx context.Context, tb testing.TB, engine Engine, change []string) (*large, error) {
	l, err := openLargeOn(ctx, tb, engine, len(change) > 0)
	if err != nil {
		return nil, err
	}
	err = l.Write(ctx, func(tx txn.Tx) error {
		for _, text := range change {
			if _, err := sqldb.From(tx).Exec(text); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = l.readIndexes(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func openLargeOn(ctx context.Context, tb testing.TB, engine Engine, changed bool) (*large, error) {
	if engine == Postgres {
		return startedServer(tb).large(ctx, changed)
	}
	template, err := sqliteTemplate() // with the statistics that every database has
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "agentd-plans-")
	if err != nil {
		return nil, err
	}
	remove := func() error { return os.RemoveAll(dir) }
	if err := os.WriteFile(filepath.Join(dir, "agentd.db"), template, 0o600); err != nil {
		return nil, errors.Join(err, remove())
	}
	db, err := sqldb.Open(ctx, sqldb.Config{Dir: dir})
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	return &large{DB: db, remove: remove}, nil
}

func (db *large) close() error { return errors.Join(db.Close(), db.remove()) }

// explain returns the plan of a statement. With must, PostgreSQL does only what it
// cannot avoid.
func (db *large) explain(ctx context.Context, s Statement, must bool) (p plan, err error) {
	if !db.Postgres() {
		lines, err := sqldb.Collect(db.Reader(ctx), "EXPLAIN QUERY PLAN "+s.Text, s.Args, func(row sqldb.Row) (line string, err error) {
			var id, parent, unused int64
			return line, errors.Join(row.Scan(&id, &parent, &unused, &line), err)
		})
		return sqlitePlan(lines), err
	}
	err = db.Write(ctx, func(tx txn.Tx) error { // with the locks of a transaction
		for _, avoided := range []string{"seqscan", "sort", "bitmapscan", "hashjoin", "mergejoin"} {
			if _, err := sqldb.From(tx).Exec(fmt.Sprintf("SET LOCAL enable_%s = %t", avoided, !must)); err != nil {
				return err
			}
		}
		var text []byte
		if err := sqldb.From(tx).QueryRow("EXPLAIN (FORMAT JSON) "+s.Text, s.Args...).Scan(&text); err != nil {
			return err
		}
		var found []struct{ Plan node }
		if err := json.Unmarshal(text, &found); err != nil {
			return err
		}
		for i := range found {
			found[i].Plan.add(&p, "", "")
		}
		return nil
	})
	return p, err
}

var (
	sqliteRead  = regexp.MustCompile(`^(SCAN|SEARCH) (\w+)(?: USING (.*?))?(?: \((.*)\))?(?: LEFT-JOIN)?$`)
	sqliteIndex = regexp.MustCompile(`INDEX (\w+)`)
	equals      = regexp.MustCompile(`(\w+)=\?`)
)

func sqlitePlan(lines []string) plan {
	p := plan{text: strings.Join(lines, "\n")}
	for _, line := range lines {
		if strings.Contains(line, "TEMP B-TREE") {
			p.sorts = true
			continue
		}
		m := sqliteRead.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		r := read{name: m[2], scans: m[1] == "SCAN" || strings.Contains(m[3], "AUTOMATIC")}
		if i := sqliteIndex.FindStringSubmatch(m[3]); i != nil {
			r.index = i[1]
		}
		for _, column := range equals.FindAllStringSubmatch(m[4], -1) {
			r.bound = append(r.bound, column[1])
		}
		p.reads = append(p.reads, r)
	}
	return p
}

// node is a node of a plan of PostgreSQL.
type node struct {
	Type      string `json:"Node Type"`
	Table     string `json:"Relation Name"`
	Alias     string
	IndexName string `json:"Index Name"`
	Condition string `json:"Index Cond"`
	Plans     []node
}

var pgEquals = regexp.MustCompile(`\(?\(?(\w+)\)?(?:::\w+)? = `)

// add adds the node and those below it to a plan. The bitmap of an index does
// not name its table; the node above it does.
func (n *node) add(p *plan, above, indent string) {
	p.text += strings.TrimRight(indent+strings.Join([]string{n.Type, n.Table, n.Alias, n.IndexName, n.Condition}, " "), " ") + "\n"
	name := n.Table
	if n.Alias != "" {
		name = n.Alias
	}
	switch n.Type {
	case "Sort", "Incremental Sort":
		p.sorts = true
	case "Seq Scan":
		p.reads = append(p.reads, read{name: name, scans: true})
	case "Bitmap Heap Scan":
		above = name
	case "Index Scan", "Index Only Scan", "Bitmap Index Scan":
		if n.Type == "Bitmap Index Scan" {
			name = above
		}
		r := read{name: name, index: n.IndexName, scans: n.Condition == ""}
		for _, column := range pgEquals.FindAllStringSubmatch(n.Condition, -1) {
			r.bound = append(r.bound, column[1])
		}
		p.reads = append(p.reads, r)
	}
	for i := range n.Plans {
		n.Plans[i].add(p, above, indent+"  ")
	}
}

// readIndexes reads the indexes of all tables.
func (db *large) readIndexes(ctx context.Context) error {
	query := `SELECT t.name, i.name, COALESCE(s.sql, ''), (SELECT group_concat(name) FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno)), COALESCE(i."unique", FALSE)
		FROM pragma_table_list AS t LEFT JOIN pragma_index_list(t.name) AS i LEFT JOIN sqlite_master AS s ON s.name = i.name
		WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite_%'`
	if db.Postgres() {
		query = `SELECT t.relname::text, i.relname::text, COALESCE(pg_get_indexdef(i.oid), ''), (SELECT string_agg(a.attname, ',' ORDER BY a.attnum)
			FROM pg_attribute AS a WHERE a.attrelid = i.oid), COALESCE(x.indisunique, FALSE) FROM pg_class AS t LEFT JOIN pg_index AS x ON x.indrelid = t.oid
			LEFT JOIN pg_class AS i ON i.oid = x.indexrelid WHERE t.relkind = 'r' AND t.relnamespace = 'public'::regnamespace`
	}
	db.indexes = map[string][]index{}
	if err := db.readColumns(ctx); err != nil {
		return err
	}
	_, err := sqldb.Collect(db.Reader(ctx), query, nil, func(row sqldb.Row) (struct{}, error) {
		var table, definition string
		var name, columns sql.NullString
		var unique bool
		if err := row.Scan(&table, &name, &definition, &columns, &unique); err != nil {
			return struct{}{}, fmt.Errorf("read the indexes: %w", err)
		}
		_, where, _ := strings.Cut(definition, " WHERE ")
		db.indexes[table] = append(db.indexes[table], index{name: name.String, where: where, columns: strings.Split(columns.String, ","), unique: unique})
		return struct{}{}, nil
	})
	return err
}

func (db *large) readColumns(ctx context.Context) error {
	query := `SELECT t.name, c.name FROM pragma_table_list AS t, pragma_table_info(t.name) AS c WHERE t.schema = 'main' AND t.type = 'table'`
	if db.Postgres() {
		query = `SELECT table_name::text, column_name::text FROM information_schema.columns WHERE table_schema = 'public'`
	}
	db.columns = map[string][]string{}
	_, err := sqldb.Collect(db.Reader(ctx), query, nil, func(row sqldb.Row) (struct{}, error) {
		var table, column string
		err := row.Scan(&table, &column)
		db.columns[table] = append(db.columns[table], column)
		return struct{}{}, err
	})
	return err
}
