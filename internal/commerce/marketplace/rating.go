package marketplace

import (
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
)

type rateIn struct {
	ListingID string `path:"listingId"`
	Body      struct {
		_ struct{} `json:"-" name:"MarketplaceRate"`

		Rating  int64  `json:"rating" required:"true" minimum:"1" maximum:"5" doc:"1 to 5."`
		Comment string `json:"comment,omitzero" maxLength:"5000" doc:"Why. It is public."`
		Review  string `json:"review,omitzero" maxLength:"5000" doc:"Another name of comment."`
	}
}

type ratingView struct {
	_ struct{} `json:"-" name:"MarketplaceListingRating"`

	RatingID  string    `json:"rating_id" required:"true" format:"uuid"`
	ListingID string    `json:"listing_id" required:"true" format:"uuid"`
	TenantID  string    `json:"tenant_id" required:"true" doc:"The company that rates."`
	Rating    int64     `json:"rating" required:"true"`
	Comment   string    `json:"comment" required:"true"`
	Review    string    `json:"review" required:"true" doc:"The same as comment."`
	CreatedAt time.Time `json:"created_at" required:"true"`
}

func ratingViewOf(r *Rating) ratingView {
	return ratingView{
		RatingID: r.RatingID, ListingID: r.ListingID, TenantID: r.TenantID, Rating: r.Rating,
		Comment: r.Comment, Review: r.Comment, CreatedAt: r.CreatedAt,
	}
}

// rate stores what a company thinks of a listing of another one. A second rating
// replaces the first.
func (s *Service) rate(ctx context.Context, who authz.Caller, in *rateIn) (out ratingView, err error) {
	r := &Rating{
		TenantID: who.TenantID, ListingID: in.ListingID, RatingID: ident.New(), Rating: in.Body.Rating,
		Comment: in.Body.Comment, CreatedAt: s.Clock.Now(),
	}
	if r.Comment == "" {
		r.Comment = in.Body.Review
	}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		l, err := s.othersTx(tx, who, in.ListingID, "rate")
		if err != nil {
			return err
		}
		before, err := s.Store.GetRatingTx(tx, who.TenantID, in.ListingID)
		switch {
		case err == nil:
			l.RatingSum += r.Rating - before.Rating
		case fault.Is(err, fault.NotFound):
			l.RatingSum, l.RatingCount = l.RatingSum+r.Rating, l.RatingCount+1
		default:
			return err
		}
		if err := s.Store.PutRatingTx(tx, r); err != nil {
			return err
		}
		if err := s.Store.UpdateTx(tx, l); err != nil {
			return err
		}
		if err := s.record(tx, who, "marketplace_listing.rated", l); err != nil {
			return err
		}
		out = ratingViewOf(r)
		return txn.Answer(tx, out)
	})
	return out, err
}

// othersTx locks a published listing of another company. Errors: fault.NotFound,
// fault.Forbidden for the company's own.
func (s *Service) othersTx(tx txn.Tx, who authz.Caller, id, action string) (*Listing, error) {
	if _, err := s.Store.GetTx(tx, who.TenantID, id); err == nil {
		return nil, fault.New(fault.Forbidden, "", "A company cannot %s its own listing.", action)
	} else if !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	return s.Store.GetPublishedTx(tx, id)
}

type reviewsIn struct {
	ListingID string `path:"listingId"`
	Limit     string `query:"limit" doc:"How many, 1 to 100. Default: 20."`
	Cursor    string `query:"cursor" doc:"Where the page begins, from the page before."`
}

type reviewPage struct {
	_ struct{} `json:"-" name:"MarketplaceReviewPage"`

	Reviews []ratingView `json:"reviews" required:"true"`
	Total   int          `json:"total" required:"true" doc:"How many are on this page."`
	Cursor  *string      `json:"cursor" required:"true" doc:"null on the last page."`
	HasMore bool         `json:"has_more" required:"true"`
}

// listReviews pages through the ratings of a listing that is no draft. They are
// public.
func (s *Service) listReviews(ctx context.Context, _ authz.Caller, in *reviewsIn) (out reviewPage, err error) {
	if _, err := s.Store.GetPublished(ctx, in.ListingID); err != nil {
		return out, err
	}
	p := pager[Rating, ratingView]{
		scope: page.ScopeOf("", "marketplace_reviews", in), limit: in.Limit, cursor: in.Cursor,
		list: func(w page.Window) ([]Rating, error) { return s.Store.ListRatings(ctx, in.ListingID, w) },
		id:   func(r *Rating) string { return r.RatingID }, view: ratingViewOf,
	}
	out.Reviews, out.Cursor, err = p.read(s.Cursors)
	out.Total, out.HasMore = len(out.Reviews), out.Cursor != nil
	return out, err
}

type favourite struct {
	_ struct{} `json:"-" name:"MarketplaceFavourite"`

	ListingID string `json:"listing_id" required:"true" format:"uuid"`
	Favourite bool   `json:"favourite" required:"true"`
}

func (s *Service) addFavourite(ctx context.Context, who authz.Caller, in *listingIn) (favourite, error) {
	return s.setFavourite(ctx, who, in.ListingID, true)
}

func (s *Service) removeFavourite(ctx context.Context, who authz.Caller, in *listingIn) (favourite, error) {
	return s.setFavourite(ctx, who, in.ListingID, false)
}

// setFavourite makes a listing a favourite of the caller, or ends that.
func (s *Service) setFavourite(ctx context.Context, who authz.Caller, id string, is bool) (favourite, error) {
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		l, err := s.Store.GetPublishedTx(tx, id)
		if err != nil {
			return err
		}
		changed, err := s.Store.UpdateFavouriteTx(tx, who.TenantID, who.UserID, id, is)
		if err != nil || !changed {
			return err
		}
		if is {
			l.Favourites++
		} else {
			l.Favourites--
		}
		return s.Store.UpdateTx(tx, l)
	})
	return favourite{ListingID: id, Favourite: is}, err
}
