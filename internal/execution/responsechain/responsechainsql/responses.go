// Package responsechainsql keeps on SQL which response a run continues.
package responsechainsql

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/responsechain"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/store/sqldb"
)

// Store keeps which response a run continues. It implements responsechain.Store.
type Store struct{ db *sqldb.DB }

var _ responsechain.Store = (*Store)(nil)

// New uses the tables of migration 27.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	responseColumns = `run_id, previous_id, standing, asked, deleted_at`

	// UNION, unlike UNION ALL, ends even where the table has a cycle.
	selectChain = `WITH RECURSIVE line (` + responseColumns + `) AS (
			SELECT ` + responseColumns + ` FROM responses WHERE tenant_id = ? AND run_id = ?
			UNION
			SELECT r.run_id, r.previous_id, r.standing, r.asked, r.deleted_at
				FROM line JOIN responses r ON r.run_id = line.previous_id AND r.tenant_id = ?
		) SELECT ` + responseColumns + ` FROM line`
)

var insertResponse = sqldb.Insert(`responses`, `tenant_id, `+responseColumns)

// CreateTx implements responsechain.Store.
func (s *Store) CreateTx(tx txn.Tx, tenant string, l responsechain.Link) error {
	_, err := sqldb.From(tx).Exec(insertResponse, tenant, l.RunID, l.Previous, l.Standing, string(l.Asked), 0)
	return err
}

// DeleteTx implements responsechain.Store.
func (s *Store) DeleteTx(tx txn.Tx, tenant, id string, at time.Time) error {
	n, err := sqldb.From(tx).Exec(`UPDATE responses SET deleted_at = ? WHERE tenant_id = ? AND run_id = ? AND deleted_at = 0`,
		sqldb.Micros(at), tenant, id)
	if err == nil && n == 0 {
		return fault.NewNotFound("response")
	}
	return err
}

// ListByID implements responsechain.Store.
func (s *Store) ListByID(ctx context.Context, tenant string, ids []string) ([]responsechain.Response, error) {
	links := make([]responsechain.Link, 0, len(ids))
	for part := range slices.Chunk(ids, sqldb.MaxIn) {
		in, args := sqldb.In(part, tenant)
		found, err := sqldb.Collect(s.db.Reader(ctx), `SELECT `+responseColumns+` FROM responses
			WHERE tenant_id = ? AND run_id`+in+` AND deleted_at = 0`, args, scanResponse)
		if err != nil {
			return nil, err
		}
		links = append(links, found...)
	}
	place := make(map[string]int, len(ids))
	for i, id := range ids {
		place[id] = i
	}
	slices.SortFunc(links, func(a, b responsechain.Link) int { return place[a.RunID] - place[b.RunID] })
	all, err := s.withRuns(ctx, tenant, links)
	return slices.DeleteFunc(all, func(r responsechain.Response) bool { return r.Run.RunID == "" }), err
}

// ListChain implements responsechain.Store.
func (s *Store) ListChain(ctx context.Context, tenant, id string) ([]responsechain.Response, error) {
	links, err := sqldb.Collect(s.db.Reader(ctx), selectChain, []any{tenant, id, tenant}, scanResponse)
	if err != nil {
		return nil, err
	}
	return s.withRuns(ctx, tenant, inLine(links, id))
}

// inLine sorts links from the first response to the one with id.
func inLine(links []responsechain.Link, id string) []responsechain.Link {
	by := make(map[string]responsechain.Link, len(links))
	for _, l := range links {
		by[l.RunID] = l
	}
	line := links[:0]
	for len(by) > 0 {
		l, ok := by[id]
		if !ok {
			break
		}
		line = append(line, l)
		delete(by, id)
		id = l.Previous
	}
	slices.Reverse(line)
	return line
}

// withRuns adds the runs to their links.
func (s *Store) withRuns(ctx context.Context, tenant string, links []responsechain.Link) ([]responsechain.Response, error) {
	ids := make([]string, len(links))
	for i, l := range links {
		if !l.Deleted { // of others the run's id stays empty
			ids[i] = l.RunID
		}
	}
	journals, err := runsql.WithSteps(ctx, s.db, tenant, ids)
	if err != nil {
		return nil, err
	}
	out := make([]responsechain.Response, len(links))
	for i := range links {
		out[i] = responsechain.Response{Link: links[i], Journal: journals[i]}
	}
	return out, nil
}

func scanResponse(row sqldb.Row) (l responsechain.Link, err error) {
	var asked string
	var deleted int64
	err = row.Scan(&l.RunID, &l.Previous, &l.Standing, &asked, &deleted)
	l.Asked, l.Deleted = jsontext.Value(asked), deleted != 0
	return l, err
}
