// Package directorysql reads public profiles, and counts events, on SQL.
package directorysql

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/txn"
	"agentd/internal/public/directory"
	"agentd/internal/store/sqldb"
)

// Store implements directory.Store.
type Store struct{ db *sqldb.DB }

var _ directory.Store = (*Store)(nil)

// New uses the tables of migration 206.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	selectCompanies = `SELECT tenant_id, name, slug, description, logo_url, branding, social_links, public_agent_id, published_agents,
		public_settings, published_at FROM tenants WHERE published_at > 0 AND status = 'active'`
	addEvent = `INSERT INTO public_events (day, name, number) VALUES (?, ?, ?)
		ON CONFLICT (day, name) DO UPDATE SET number = public_events.number + excluded.number`
)

func scanCompany(row sqldb.Row) (directory.Company, error) {
	var c directory.Company
	var branding, links, agents, settings string
	var published int64
	err := row.Scan(&c.TenantID, &c.Name, &c.Slug, &c.Description, &c.LogoURL, &branding, &links,
		&c.PublicAgentID, &agents, &settings, &published)
	if err != nil {
		return c, err
	}
	c.Branding, c.SocialLinks, c.AgentIDs = jsontext.Value(branding), jsontext.Value(links), strings.Fields(agents)
	c.PublishedAt = sqldb.Time(published)
	if settings == "" {
		return c, nil
	}
	var public struct {
		Category string   `json:"category"`
		Tagline  string   `json:"tagline"`
		Tags     []string `json:"tags"`
	}
	var dec sqldb.Decoder
	dec.JSON(settings, &public)
	c.Category, c.Tagline, c.Tags = public.Category, public.Tagline, public.Tags
	return c, dec.Err()
}

// List implements directory.Store.
func (s *Store) List(ctx context.Context, limit int) ([]directory.Company, error) {
	return sqldb.Collect(s.db.Reader(ctx), selectCompanies+` ORDER BY published_at DESC LIMIT ?`, []any{limit}, scanCompany)
}

// Get implements directory.Store.
func (s *Store) Get(ctx context.Context, slug string) (*directory.Company, error) {
	c, err := scanCompany(s.db.QueryRow(ctx, selectCompanies+` AND slug = ?`, slug))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &c, err
}

// IncrementEvents implements directory.Store.
func (s *Store) IncrementEvents(ctx context.Context, day string, numbers map[string]int64, most int) error {
	return s.db.Write(ctx, func(tx txn.Tx) error {
		t := sqldb.From(tx)
		rows, err := t.Query(`SELECT name FROM public_events WHERE day = ?`, day)
		if err != nil {
			return err
		}
		known, err := sqldb.ScanStrings(rows)
		if err != nil {
			return err
		}
		room := most - len(known)
		for _, name := range slices.Sorted(maps.Keys(numbers)) {
			if !slices.Contains(known, name) {
				if room--; room < 0 {
					continue
				}
			}
			if _, err := t.Exec(addEvent, day, name, numbers[name]); err != nil {
				return err
			}
		}
		return nil
	})
}

// ListEvents implements directory.Store.
func (s *Store) ListEvents(ctx context.Context, since string, limit int) ([]directory.Counted, error) {
	return sqldb.Collect(s.db.Reader(ctx), `SELECT day, name, number FROM public_events WHERE day >= ? ORDER BY day DESC, name DESC LIMIT ?`,
		[]any{since, limit}, func(row sqldb.Row) (c directory.Counted, err error) {
			err = row.Scan(&c.Day, &c.Event, &c.Number)
			return c, err
		})
}
