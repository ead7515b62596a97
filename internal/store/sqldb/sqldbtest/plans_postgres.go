package sqldbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"agentd/internal/store/sqldb"
)

// columnStatistics has PostgreSQL's planner take every column for one of many
// values: what it knows of them is constant, as on SQLite.
const columnStatistics = `INSERT INTO pg_statistic (starelid, staattnum, stainherit, stanullfrac, stawidth, stadistinct,
	stakind1, stakind2, stakind3, stakind4, stakind5, staop1, staop2, staop3, staop4, staop5, stacoll1, stacoll2, stacoll3, stacoll4, stacoll5)
	SELECT c.oid, a.attnum, FALSE, 0, 16, v.n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
	FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid JOIN unnest($1::text[], $2::float4[]) AS v (name, n) ON v.name = a.attname
	WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> 'terms'`

// Pages of a table and of an index that are said to be there. The files are
// sparse, and their pages are empty.
const (
	pageSize   = 8192
	tablePages = 20_000
	indexPages = 5_000
)

const largeName = "agentd_large"

// large opens a database of empty tables that the planner takes for large. The
// one without changes is made once for the process.
func (s *server) large(ctx context.Context, changed bool) (*large, error) {
	name, remove := largeName, func() error { return nil }
	if changed {
		name = fmt.Sprintf("plans_%d", databases.Add(1))
		if err := s.makeLarge(ctx, name); err != nil {
			return nil, err
		}
		remove = func() error { return s.admin("DROP DATABASE " + name + " WITH (FORCE)") }
	} else if s.largeOnce.Do(func() { s.largeErr = s.makeLarge(ctx, name) }); s.largeErr != nil {
		return nil, s.largeErr
	}
	db, err := sqldb.Open(ctx, sqldb.Config{URL: s.url(name), MaxConns: 2})
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	return &large{DB: db, remove: remove}, nil
}

func (s *server) makeLarge(ctx context.Context, name string) error {
	if err := s.admin(fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s STRATEGY FILE_COPY", name, templateName)); err != nil {
		return err
	}
	return s.enlarge(ctx, name)
}

func (s *server) enlarge(ctx context.Context, database string) error {
	conn, err := pgx.Connect(ctx, s.url(database))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	small := make([]string, 0, len(bounded))
	for table := range bounded {
		small = append(small, table)
	}
	columns, distinct, err := distinctValues(ctx, conn)
	if err != nil {
		return err
	}
	for _, statement := range []struct {
		text string
		args []any
	}{
		{`UPDATE pg_class SET reltuples = CASE WHEN relname = ANY ($1) THEN 10 ELSE 1000000 END, relpages = 20000
			WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`, []any{small}},
		{`UPDATE pg_class SET reltuples = 1000000, relpages = 5000 WHERE relkind = 'i' AND relnamespace = 'public'::regnamespace`, nil},
		{`DELETE FROM pg_statistic WHERE starelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)`, nil},
		{columnStatistics, []any{columns, distinct}},
	} {
		if _, err := conn.Exec(ctx, statement.text, statement.args...); err != nil {
			return err
		}
	}
	rows, err := conn.Query(ctx, `SELECT pg_relation_filepath(oid), relkind = 'r' FROM pg_class
		WHERE relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace AND NOT relname = ANY ($1)`, small)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var path string
		var table bool
		if err := rows.Scan(&path, &table); err != nil {
			return err
		}
		pages := int64(indexPages)
		if table {
			pages = tablePages
		}
		if err := os.Truncate(filepath.Join(s.dir, "data", path), pages*pageSize); err != nil {
			return err
		}
	}
	return rows.Err()
}

// distinctValues returns the names of all columns, and how many values each has.
func distinctValues(ctx context.Context, conn *pgx.Conn) (columns []string, distinct []float32, err error) {
	rows, err := conn.Query(ctx, `SELECT DISTINCT column_name::text FROM information_schema.columns WHERE table_schema = 'public'`)
	if err != nil {
		return nil, nil, err
	}
	columns, err = pgx.CollectRows(rows, pgx.RowTo[string])
	for _, column := range columns {
		distinct = append(distinct, float32(sqldb.DistinctValues(column)))
	}
	return columns, distinct, err
}
