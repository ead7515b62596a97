// Package marketplacesql keeps the marketplace on SQL.
package marketplacesql

import (
	"cmp"
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/tokenize"
	"agentd/internal/base/txn"
	"agentd/internal/commerce/marketplace"
	"agentd/internal/store/sqldb"
)

// Store implements marketplace.Store.
type Store struct{ db *sqldb.DB }

var _ marketplace.Store = (*Store)(nil)

// New uses the tables of migration 201.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	listingColumns = `tenant_id, listing_id, agent_id, status, category, body, rating_sum, rating_count, invocations, favourites, ` +
		`published_at, created_at, updated_at`
	listingChanges = `status, category, body, rating_sum, rating_count, invocations, favourites, published_at, updated_at`
	oneListing     = ` WHERE tenant_id = ? AND listing_id = ?`
	notDraft       = ` WHERE listing_id = ? AND status <> 'draft'`

	publishedColumns = `shelf, listing_id, tenant_id, rating, popularity, published_at`
	everything       = `all` // the shelf of all listings
)

var (
	selectListings = `SELECT ` + listingColumns + ` FROM marketplace_listings`
	insertListing  = sqldb.Insert(`marketplace_listings`, listingColumns)
	updateListing  = `UPDATE marketplace_listings SET ` + sqldb.Assign(listingChanges) + oneListing
	putPublished   = sqldb.Insert(`marketplace_published`, publishedColumns) + ` ON CONFLICT (listing_id, shelf) DO UPDATE SET ` +
		sqldb.Excluded(`rating, popularity, published_at`)
	insertWord = sqldb.Insert(`marketplace_words`, `begin, listing_id, tenant_id`)

	listed          = ` JOIN marketplace_listings l ON l.tenant_id = p.tenant_id AND l.listing_id = p.listing_id`
	selectPublished = `SELECT ` + sqldb.Qualify(`l`, listingColumns) + ` FROM marketplace_published p` + listed
	selectByBegin   = `SELECT ` + sqldb.Qualify(`l`, listingColumns) + ` FROM marketplace_words p` + listed +
		` WHERE p.begin = ? ORDER BY p.listing_id DESC LIMIT ?`
)

// micros returns a time as it is stored, 0 for none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return sqldb.Micros(t)
}

// moment is the reverse of micros.
func moment(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return sqldb.Time(n)
}

func scanListing(row sqldb.Row) (l marketplace.Listing, err error) {
	var body string
	var published, created, updated int64
	err = row.Scan(&l.TenantID, &l.ListingID, &l.AgentID, &l.Status, &l.Category, &body, &l.RatingSum, &l.RatingCount, &l.Invocations,
		&l.Favourites, &published, &created, &updated)
	if err != nil {
		return l, sqldb.NoRowsAs(err, fault.NewNotFound("listing"))
	}
	l.PublishedAt, l.CreatedAt, l.UpdatedAt = moment(published), moment(created), moment(updated)
	return l, json.Unmarshal([]byte(body), &l.Fields)
}

// one returns a pointer to what was scanned.
func one[T any](scan func(sqldb.Row) (T, error), row sqldb.Row) (*T, error) {
	v, err := scan(row)
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// CreateTx implements marketplace.Listings.
func (s *Store) CreateTx(tx txn.Tx, l *marketplace.Listing) error {
	body, err := json.Marshal(l.Fields)
	if err != nil {
		return err
	}
	_, err = sqldb.From(tx).Exec(insertListing, l.TenantID, l.ListingID, l.AgentID, l.Status, l.Category, string(body),
		l.RatingSum, l.RatingCount, l.Invocations, l.Favourites, micros(l.PublishedAt), micros(l.CreatedAt), micros(l.UpdatedAt))
	return err
}

// Get implements marketplace.Listings.
func (s *Store) Get(ctx context.Context, tenant, id string) (*marketplace.Listing, error) {
	return one(scanListing, s.db.QueryRow(ctx, selectListings+oneListing, tenant, id))
}

// GetTx implements marketplace.Listings.
func (s *Store) GetTx(tx txn.Tx, tenant, id string) (*marketplace.Listing, error) {
	t := sqldb.From(tx)
	return one(scanListing, t.QueryRow(selectListings+oneListing+t.ForUpdate(), tenant, id))
}

// GetPublished implements marketplace.Public.
func (s *Store) GetPublished(ctx context.Context, id string) (*marketplace.Listing, error) {
	return one(scanListing, s.db.QueryRow(ctx, selectListings+notDraft, id))
}

// GetPublishedTx implements marketplace.Public.
func (s *Store) GetPublishedTx(tx txn.Tx, id string) (*marketplace.Listing, error) {
	t := sqldb.From(tx)
	return one(scanListing, t.QueryRow(selectListings+notDraft+t.ForUpdate(), id))
}

// UpdateTx implements marketplace.Listings.
func (s *Store) UpdateTx(tx txn.Tx, l *marketplace.Listing) error {
	body, err := json.Marshal(l.Fields)
	if err != nil {
		return err
	}
	_, err = sqldb.From(tx).Exec(updateListing, l.Status, l.Category, string(body), l.RatingSum, l.RatingCount, l.Invocations,
		l.Favourites, micros(l.PublishedAt), micros(l.UpdatedAt), l.TenantID, l.ListingID)
	switch {
	case err != nil:
		return err
	case l.Status != marketplace.Published:
		return hide(tx, l.ListingID)
	}
	return show(tx, l)
}

// show makes a listing be found.
func show(tx txn.Tx, l *marketplace.Listing) error {
	t := sqldb.From(tx)
	const elsewhere = `DELETE FROM marketplace_published WHERE listing_id = ? AND shelf <> ? AND shelf <> ?`
	if _, err := t.Exec(elsewhere, l.ListingID, everything, l.Category); err != nil {
		return err
	}
	for _, shelf := range []string{everything, l.Category} {
		if _, err := t.Exec(putPublished, shelf, l.ListingID, l.TenantID, l.Average(), l.Invocations, micros(l.PublishedAt)); err != nil {
			return err
		}
	}
	return putWords(tx, l)
}

// putWords stores the words by which a listing is found.
func putWords(tx txn.Tx, l *marketplace.Listing) error {
	t := sqldb.From(tx)
	stored, err := sqldb.Collect(t.Query, `SELECT begin FROM marketplace_words WHERE listing_id = ?`, []any{l.ListingID}, scanText)
	if err != nil {
		return err
	}
	missing := map[string]bool{}
	for _, begin := range tokenize.Beginnings(l.Words()) {
		missing[begin] = true
	}
	for _, begin := range stored {
		if missing[begin] {
			delete(missing, begin)
		} else if _, err := t.Exec(`DELETE FROM marketplace_words WHERE begin = ? AND listing_id = ?`, begin, l.ListingID); err != nil {
			return err
		}
	}
	for begin := range missing {
		if _, err := t.Exec(insertWord, begin, l.ListingID, l.TenantID); err != nil {
			return err
		}
	}
	return nil
}

func scanText(row sqldb.Row) (text string, err error) {
	err = row.Scan(&text)
	return text, err
}

// hide makes a listing be found no more.
func hide(tx txn.Tx, id string) error {
	if _, err := sqldb.From(tx).Exec(`DELETE FROM marketplace_published WHERE listing_id = ?`, id); err != nil {
		return err
	}
	_, err := sqldb.From(tx).Exec(`DELETE FROM marketplace_words WHERE listing_id = ?`, id)
	return err
}

// DeleteTx implements marketplace.Listings.
func (s *Store) DeleteTx(tx txn.Tx, tenant, id string) error {
	if err := hide(tx, id); err != nil {
		return err
	}
	_, err := sqldb.From(tx).Exec(`DELETE FROM marketplace_listings`+oneListing, tenant, id)
	return err
}

// List implements marketplace.Listings.
func (s *Store) List(ctx context.Context, tenant string, w page.Window) ([]marketplace.Listing, error) {
	query, args := before(selectListings, `tenant_id`, `listing_id`, tenant, w)
	return sqldb.Collect(s.db.Reader(ctx), query, args, scanListing)
}

// before returns the statement of a page of the rows of an owner, newest first.
func before(query, owner, id, value string, w page.Window) (string, []any) {
	query, args := query+` WHERE `+owner+` = ?`, []any{value}
	if w.After != "" {
		query, args = query+` AND `+id+` < ?`, append(args, w.After)
	}
	return query + ` ORDER BY ` + id + ` DESC LIMIT ?`, append(args, w.Limit)
}

// ListOfAgentTx implements marketplace.Listings.
func (s *Store) ListOfAgentTx(tx txn.Tx, tenant, agent string) ([]marketplace.Listing, error) {
	return sqldb.Collect(sqldb.From(tx).Query, selectListings+` WHERE tenant_id = ? AND agent_id = ?`, []any{tenant, agent}, scanListing)
}

// CountPublishedTx implements marketplace.Listings.
func (s *Store) CountPublishedTx(tx txn.Tx, tenant string, since time.Time) (n int, err error) {
	const count = `SELECT COUNT(*) FROM marketplace_listings WHERE tenant_id = ? AND published_at > ?`
	err = sqldb.From(tx).QueryRow(count, tenant, micros(since)).Scan(&n)
	return n, err
}

// orders are the columns by which listings are ordered.
var orders = map[marketplace.Order]string{
	marketplace.ByRecency: `published_at`, marketplace.ByRating: `rating`, marketplace.ByPopularity: `popularity`,
}

// ListPublished implements marketplace.Public.
func (s *Store) ListPublished(ctx context.Context, q marketplace.Search) ([]marketplace.Listing, error) {
	query := selectPublished + ` WHERE p.shelf = ? ORDER BY p.` + orders[q.Order] + ` DESC, p.listing_id DESC LIMIT ?`
	return sqldb.Collect(s.db.Reader(ctx), query, []any{cmp.Or(q.Category, everything), q.Limit}, scanListing)
}

// ListPublishedByBegin implements marketplace.Public.
func (s *Store) ListPublishedByBegin(ctx context.Context, begin string, limit int) ([]marketplace.Listing, error) {
	return sqldb.Collect(s.db.Reader(ctx), selectByBegin, []any{begin, limit}, scanListing)
}
