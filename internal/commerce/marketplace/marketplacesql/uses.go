package marketplacesql

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/commerce/marketplace"
	"agentd/internal/store/sqldb"
)

const (
	ratingColumns       = `tenant_id, listing_id, rating_id, rating, comment, created_at`
	subscriptionColumns = `tenant_id, listing_id, status, external_id, paid_until, created_at, updated_at`
	invocationColumns   = `tenant_id, invocation_id, listing_id, owner_id, status, input, result, pricing, price, duration_ms, ` +
		`created_at, completed_at`
	selectRatings       = `SELECT ` + ratingColumns + ` FROM marketplace_ratings`
	selectSubscriptions = `SELECT ` + subscriptionColumns + ` FROM marketplace_subscriptions`
	selectInvocations   = `SELECT ` + invocationColumns + ` FROM marketplace_invocations`
)

var (
	putRating = sqldb.Insert(`marketplace_ratings`, ratingColumns) + ` ON CONFLICT (tenant_id, listing_id) DO UPDATE SET ` +
		sqldb.Excluded(`rating_id, rating, comment, created_at`)
	putSubscription = sqldb.Insert(`marketplace_subscriptions`, subscriptionColumns) +
		` ON CONFLICT (tenant_id, listing_id) DO UPDATE SET ` + sqldb.Excluded(`status, external_id, paid_until, updated_at`)
	insertInvocation = sqldb.Insert(`marketplace_invocations`, invocationColumns)
	updateInvocation = `UPDATE marketplace_invocations SET ` + sqldb.Assign(`status, result, price, duration_ms, completed_at`) +
		` WHERE tenant_id = ? AND invocation_id = ?`
	addFavourite = sqldb.Insert(`marketplace_favourites`, `tenant_id, user_id, listing_id`) +
		` ON CONFLICT (tenant_id, user_id, listing_id) DO NOTHING`
)

func scanRating(row sqldb.Row) (r marketplace.Rating, err error) {
	var created int64
	err = row.Scan(&r.TenantID, &r.ListingID, &r.RatingID, &r.Rating, &r.Comment, &created)
	r.CreatedAt = moment(created)
	return r, sqldb.NoRowsAs(err, fault.NewNotFound("rating"))
}

// GetRatingTx implements marketplace.Store.
func (s *Store) GetRatingTx(tx txn.Tx, tenant, listing string) (*marketplace.Rating, error) {
	return one(scanRating, sqldb.From(tx).QueryRow(selectRatings+oneListing, tenant, listing))
}

// PutRatingTx implements marketplace.Store.
func (s *Store) PutRatingTx(tx txn.Tx, r *marketplace.Rating) error {
	_, err := sqldb.From(tx).Exec(putRating, r.TenantID, r.ListingID, r.RatingID, r.Rating, r.Comment, micros(r.CreatedAt))
	return err
}

// ListRatings implements marketplace.Public.
func (s *Store) ListRatings(ctx context.Context, listing string, w page.Window) ([]marketplace.Rating, error) {
	query, args := before(selectRatings, `listing_id`, `rating_id`, listing, w)
	return sqldb.Collect(s.db.Reader(ctx), query, args, scanRating)
}

// UpdateFavouriteTx implements marketplace.Store.
func (s *Store) UpdateFavouriteTx(tx txn.Tx, tenant, user, listing string, favourite bool) (bool, error) {
	statement := `DELETE FROM marketplace_favourites WHERE tenant_id = ? AND user_id = ? AND listing_id = ?`
	if favourite {
		statement = addFavourite
	}
	n, err := sqldb.From(tx).Exec(statement, tenant, user, listing)
	return n > 0, err
}

func scanSubscription(row sqldb.Row) (s marketplace.Subscription, err error) {
	var paid, created, updated int64
	err = row.Scan(&s.TenantID, &s.ListingID, &s.Status, &s.ExternalID, &paid, &created, &updated)
	s.PaidUntil, s.CreatedAt, s.UpdatedAt = moment(paid), moment(created), moment(updated)
	return s, sqldb.NoRowsAs(err, fault.NewNotFound("subscription"))
}

// GetSubscriptionTx implements marketplace.Store.
func (s *Store) GetSubscriptionTx(tx txn.Tx, tenant, listing string) (*marketplace.Subscription, error) {
	t := sqldb.From(tx)
	return one(scanSubscription, t.QueryRow(selectSubscriptions+oneListing+t.ForUpdate(), tenant, listing))
}

// PutSubscriptionTx implements marketplace.Store.
func (s *Store) PutSubscriptionTx(tx txn.Tx, sub *marketplace.Subscription) error {
	_, err := sqldb.From(tx).Exec(putSubscription, sub.TenantID, sub.ListingID, sub.Status, sub.ExternalID, micros(sub.PaidUntil),
		micros(sub.CreatedAt), micros(sub.UpdatedAt))
	return err
}

// ListSubscriptions implements marketplace.Store.
func (s *Store) ListSubscriptions(ctx context.Context, tenant string, limit int) ([]marketplace.Subscription, error) {
	query, args := before(selectSubscriptions, `tenant_id`, `listing_id`, tenant, page.Window{Limit: limit})
	return sqldb.Collect(s.db.Reader(ctx), query, args, scanSubscription)
}

func scanInvocation(row sqldb.Row) (i marketplace.Invocation, err error) {
	var input, result, pricing string
	var created, completed int64
	err = row.Scan(&i.TenantID, &i.InvocationID, &i.ListingID, &i.OwnerID, &i.Status, &input, &result, &pricing, &i.Price, &i.DurationMS,
		&created, &completed)
	i.Input, i.Result, i.Pricing = jsontext.Value(input), jsontext.Value(result), jsontext.Value(pricing)
	i.CreatedAt, i.CompletedAt = moment(created), moment(completed)
	return i, sqldb.NoRowsAs(err, fault.NewNotFound("invocation"))
}

// CreateInvocationTx implements marketplace.Store.
func (s *Store) CreateInvocationTx(tx txn.Tx, i *marketplace.Invocation) error {
	_, err := sqldb.From(tx).Exec(insertInvocation, i.TenantID, i.InvocationID, i.ListingID, i.OwnerID, i.Status, string(i.Input),
		string(i.Result), string(i.Pricing), i.Price, i.DurationMS, micros(i.CreatedAt), micros(i.CompletedAt))
	return err
}

// GetInvocation implements marketplace.Store.
func (s *Store) GetInvocation(ctx context.Context, tenant, id string) (*marketplace.Invocation, error) {
	return one(scanInvocation, s.db.QueryRow(ctx, selectInvocations+` WHERE tenant_id = ? AND invocation_id = ?`, tenant, id))
}

// GetOwnedInvocationTx implements marketplace.Store.
func (s *Store) GetOwnedInvocationTx(tx txn.Tx, owner, id string) (*marketplace.Invocation, error) {
	t := sqldb.From(tx)
	return one(scanInvocation, t.QueryRow(selectInvocations+` WHERE owner_id = ? AND invocation_id = ?`+t.ForUpdate(), owner, id))
}

// UpdateInvocationTx implements marketplace.Store.
func (s *Store) UpdateInvocationTx(tx txn.Tx, i *marketplace.Invocation) error {
	_, err := sqldb.From(tx).Exec(updateInvocation, i.Status, string(i.Result), i.Price, i.DurationMS, micros(i.CompletedAt),
		i.TenantID, i.InvocationID)
	return err
}

// ListInvocations implements marketplace.Store.
func (s *Store) ListInvocations(ctx context.Context, tenant string, w page.Window) ([]marketplace.Invocation, error) {
	query, args := before(selectInvocations, `tenant_id`, `invocation_id`, tenant, w)
	return sqldb.Collect(s.db.Reader(ctx), query, args, scanInvocation)
}

// CountInvocations implements marketplace.Store.
func (s *Store) CountInvocations(ctx context.Context, tenant string, since time.Time, limit int) (n int, err error) {
	const count = `SELECT COUNT(*) FROM (SELECT 1 FROM marketplace_invocations WHERE tenant_id = ? AND created_at > ? LIMIT ?) recent`
	err = s.db.QueryRow(ctx, count, tenant, micros(since), limit).Scan(&n)
	return n, err
}
