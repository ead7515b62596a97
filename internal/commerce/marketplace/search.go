package marketplace

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/page"
	"agentd/internal/base/tokenize"
)

const (
	// maxWords and maxWord bound the words by which a listing is found.
	maxWords = 48
	maxWord  = 16
	// maxFound is how many listings with a word are looked at.
	maxFound = 500
)

// Words returns the words by which a listing is found.
func (f *Fields) Words() []string {
	return tokenize.Distinct(f.Name+" "+strings.Join(f.Tags, " ")+" "+f.Description, maxWords, maxWord)
}

type searchIn struct {
	Q        string `query:"q" maxLength:"200" doc:"Beginnings of words of the name, the tags or the description; all must be there."`
	Category string `query:"category" enum:"productivity,engineering,research,creative,support,operations,analytics,education,personal,other" doc:"Only listings of this category."`
	Sort     string `query:"sort" enum:"rating,popularity,recency" doc:"Best, most invoked or newest first. Default: recency."`
	Limit    string `query:"limit" doc:"How many, 1 to 100. Default: 20."`
}

type searchResult struct {
	_ struct{} `json:"-" name:"MarketplaceSearchResult"`

	Items    []view `json:"items" required:"true"`
	Listings []view `json:"listings" required:"true" deprecated:"true" doc:"The same as items."`
	Total    int    `json:"total" required:"true" doc:"How many are in this answer."`
}

// search finds published listings of all companies.
func (s *Service) search(ctx context.Context, _ authz.Caller, in *searchIn) (searchResult, error) {
	order, limit := cmp.Or(Order(in.Sort), ByRecency), page.Limit(in.Limit, 20, 100)
	words := tokenize.Distinct(in.Q, maxWords, maxWord)
	var found []Listing
	var err error
	switch {
	case len(words) > 0:
		found, err = s.searchWords(ctx, words, in.Category, order, limit)
	case strings.TrimSpace(in.Q) == "":
		found, err = s.Store.ListPublished(ctx, Search{Category: in.Category, Order: order, Limit: limit})
	}
	if err != nil {
		return searchResult{}, err
	}
	out := searchResult{Items: []view{}, Total: len(found)}
	for i := range found {
		out.Items = append(out.Items, viewOf(&found[i]))
	}
	out.Listings = out.Items
	return out, nil
}

// searchWords returns the listings that have a word for each beginning. The longest
// beginning is looked up, as the rarest.
func (s *Service) searchWords(ctx context.Context, words []string, category string, order Order, limit int) ([]Listing, error) {
	longest := slices.MaxFunc(words, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	found, err := s.Store.ListPublishedByBegin(ctx, tokenize.Beginning(longest), maxFound)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(l Listing) bool {
		own := l.Words()
		return category != "" && l.Category != category || slices.ContainsFunc(words, func(begin string) bool {
			return !slices.ContainsFunc(own, func(word string) bool { return strings.HasPrefix(word, begin) })
		})
	})
	slices.SortFunc(found, func(a, b Listing) int {
		switch order {
		case ByRating:
			return cmp.Or(cmp.Compare(b.Average(), a.Average()), strings.Compare(b.ListingID, a.ListingID))
		case ByPopularity:
			return cmp.Or(cmp.Compare(b.Invocations, a.Invocations), strings.Compare(b.ListingID, a.ListingID))
		}
		return cmp.Or(b.PublishedAt.Compare(a.PublishedAt), strings.Compare(b.ListingID, a.ListingID))
	})
	return found[:min(len(found), limit)], nil
}
