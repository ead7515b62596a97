package marketplace_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
)

// A draft is its company's; what is published is everybody's; what is taken back is
// found no more and stays.
func TestListings(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, m *market) {
		ours, theirs := company(), company()
		agentID := ident.New()
		made := m.must(ours, "createMarketplaceListing", object{
			"agent_id": agentID, "name": "Quick Researcher", "category": "research", "description": "Finds papers", "tags": []string{"science"},
			"readme": "# Hello", "pricing": object{"model": "per_run", "price_per_run_usd": 0.5, "note": "x"}, "agent_version": "3",
			"icon_url": "https://example.com/i.png", "program_id": "p", "a2a_enabled": true,
		})
		id := made["listing_id"].(string)
		if made["status"] != "draft" || made["tenant_id"] != ours.TenantID || made["pricing"].(object)["note"] != "x" || made["agent_version"] != "3" {
			t.Errorf("made: %v", made)
		}
		is := func(what string, err error, kind fault.Kind) {
			t.Helper()
			if !fault.Is(err, kind) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for _, operation := range []string{
			"getMarketplaceListing", "patchMarketplaceListing", "publishMarketplaceListing", "deprecateMarketplaceListing", "deleteMarketplaceListing",
			"listMarketplaceReviews", "addMarketplaceFavourite", "removeMarketplaceFavourite",
		} {
			_, err := m.do(theirs, operation, object{}, "listingId", id)
			is(operation+" of another's draft", err, fault.NotFound)
		}
		if got := m.names(); got != nil {
			t.Errorf("a draft is found: %v", got)
		}
		_, err := m.do(ours, "deprecateMarketplaceListing", nil, "listingId", id)
		is("deprecating a draft", err, fault.Conflict)
		m.must(ours, "publishMarketplaceListing", nil, "listingId", id)
		_, err = m.do(ours, "publishMarketplaceListing", nil, "listingId", id)
		is("publishing twice", err, fault.Conflict)
		if got := m.must(theirs, "getMarketplaceListing", nil, "listingId", id); got["name"] != "Quick Researcher" || got["status"] != "published" {
			t.Errorf("another company sees %v", got)
		}
		_, err = m.do(theirs, "patchMarketplaceListing", object{"name": "x"}, "listingId", id)
		is("changing another's listing", err, fault.NotFound)
		m.must(ours, "patchMarketplaceListing", object{"name": "Slow Writer", "category": "creative", "description": "", "tags": []string{}}, "listingId", id)
		if got := m.names("q", "resear"); got != nil {
			t.Errorf("found by its old name: %v", got)
		}
		if got := m.names("q", "WRIT slow", "category", "creative"); !slices.Equal(got, []string{"Slow Writer"}) {
			t.Errorf("found by its new name: %v", got)
		}
		m.must(ours, "deprecateMarketplaceListing", nil, "listingId", id)
		if got := m.names("q", "slow"); got != nil {
			t.Errorf("a deprecated listing is found: %v", got)
		}
		if got := m.must(theirs, "getMarketplaceListing", nil, "listingId", id); got["status"] != "deprecated" {
			t.Errorf("another company sees %v", got)
		}
		m.must(ours, "publishMarketplaceListing", nil, "listingId", id)
		if got := m.must(ours, "deleteMarketplaceListing", nil, "listingId", id); got["deleted"] != false || got["unpublished"] != true {
			t.Errorf("deleting what was published: %v", got)
		}
		draft := m.must(ours, "createMarketplaceListing", object{"agent_id": agentID, "name": "d", "category": "other"})["listing_id"].(string)
		if got := m.must(ours, "deleteMarketplaceListing", nil, "listingId", draft); got["deleted"] != true {
			t.Errorf("deleting a draft: %v", got)
		}
		m.must(ours, "publishMarketplaceListing", nil, "listingId", id)
		if err := m.AgentDeleted(t.Context(), ours.TenantID, agentID); err != nil {
			t.Fatal(err)
		}
		page := m.must(ours, "listMarketplaceListings", nil, "limit", "1")
		if got := page["items"].([]any); len(got) != 1 || got[0].(object)["status"] != "deprecated" || page["has_more"] != false {
			t.Errorf("after its agent was deleted: %v", page)
		}
		if got := m.must(ours, "listMarketplaceCategories", nil)["categories"].([]any); len(got) != 10 {
			t.Errorf("categories: %v", got)
		}
	})
}

func TestListingsThatAreRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, m *market) {
		who := company()
		for name, test := range map[string]struct {
			more  object
			field string
		}{
			"blank name":     {object{"name": "  "}, "name"},
			"category":       {object{"category": "coding"}, "category"},
			"pricing model":  {object{"pricing": object{"model": "barter"}}, "pricing.model"},
			"missing price":  {object{"pricing": object{"model": "per_run"}}, "pricing.price_per_run_usd"},
			"negative price": {object{"pricing": object{"model": "per_token", "price_per_1k_tokens_usd": -1}}, "pricing.price_per_1k_tokens_usd"},
			"no number":      {object{"pricing": object{"model": "per_run", "price_per_run_usd": "1"}}, "pricing"},
			"tag":            {object{"tags": []string{""}}, "tags[0]"},
		} {
			body := object{"agent_id": ident.New(), "name": "n", "category": "other"}
			maps.Copy(body, test.more)
			_, err := m.do(who, "createMarketplaceListing", body)
			if !fault.Is(err, fault.Invalid) || len(fault.From(err).Fields) != 1 || fault.From(err).Fields[0].Field != test.field {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := m.do(who, "createMarketplaceListing", object{"agent_id": nobody, "name": "n", "category": "other"}); !fault.Is(err, fault.NotFound) {
			t.Errorf("unknown agent: %v", err)
		}
		for i := range 30 {
			m.list(who, fmt.Sprint("n", i), nil)
		}
		_, err := m.do(who, "createMarketplaceListing", object{"agent_id": ident.New(), "name": "n", "category": "other", "publish": true})
		if !fault.Is(err, fault.Limited) {
			t.Errorf("the 31st publication within an hour: %v", err)
		}
		m.clock.Advance(time.Hour)
		m.list(who, "later", nil)
	})
}

// Searches order by what was asked, and find by words.
func TestSearch(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, m *market) {
		ours := company()
		ids := map[string]string{}
		for _, name := range []string{"Alpha Translator", "Beta Translator", "Gamma Painter"} {
			m.clock.Advance(time.Minute)
			ids[name] = m.list(ours, name, object{"tags": []string{"tool"}})
		}
		rate := func(name string, n int) {
			m.must(company(), "rateMarketplaceListing", object{"rating": n}, "listingId", ids[name])
		}
		rate("Alpha Translator", 5)
		rate("Alpha Translator", 2)
		rate("Beta Translator", 4)
		m.must(company(), "invokeMarketplaceListing", object{"input": object{}}, "listingId", ids["Gamma Painter"])
		for query, want := range map[string]string{
			"": "Gamma Painter, Beta Translator, Alpha Translator", "sort=rating": "Beta Translator, Alpha Translator, Gamma Painter",
			"sort=popularity&limit=1": "Gamma Painter", "q=transl": "Beta Translator, Alpha Translator", "q=transl&sort=rating": "Beta Translator, Alpha Translator",
			"q=tool pai": "Gamma Painter", "q=nothing": "", "q=!!": "", "category=research&limit=2": "Gamma Painter, Beta Translator", "category=other": "",
			"q=t&sort=popularity&limit=1": "Gamma Painter", "category=research&sort=rating&limit=1": "Beta Translator",
			"category=research&sort=popularity&limit=1": "Gamma Painter",
		} {
			var values []string
			for pair := range strings.SplitSeq(query, "&") {
				name, value, _ := strings.Cut(pair, "=")
				values = append(values, name, value)
			}
			if got := strings.Join(m.names(values...), ", "); got != want {
				t.Errorf("%q: %s, want %s", query, got, want)
			}
		}
	})
}

// A company rates what others offer, once; everybody reads it.
func TestRatings(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, m *market) {
		ours, theirs := company(), company()
		id := m.list(ours, "Rated", nil)
		if _, err := m.do(ours, "rateMarketplaceListing", object{"rating": 5}, "listingId", id); !fault.Is(err, fault.Forbidden) {
			t.Errorf("rating one's own: %v", err)
		}
		for _, bad := range []any{0, 6, 4.5, "5"} {
			if _, err := m.do(theirs, "rateMarketplaceListing", object{"rating": bad}, "listingId", id); !fault.Is(err, fault.Invalid) {
				t.Errorf("rating %v: %v", bad, err)
			}
		}
		m.must(theirs, "rateMarketplaceListing", object{"rating": 1, "comment": "bad"}, "listingId", id)
		m.must(theirs, "rateMarketplaceListing", object{"rating": 5, "review": "better"}, "listingId", id)
		m.must(company(), "rateMarketplaceListing", object{"rating": 4}, "listingId", id)
		stats := m.must(ours, "getMarketplaceListing", nil, "listingId", id)["stats"].(object)
		if stats["rating_avg"] != 4.5 || stats["rating_count"] != 2.0 {
			t.Errorf("the stats are %v", stats)
		}
		first := m.must(authz.Caller{}, "listMarketplaceReviews", nil, "listingId", id, "limit", "1")
		second := m.must(authz.Caller{}, "listMarketplaceReviews", nil, "listingId", id, "limit", "1", "cursor", first["cursor"].(string))
		got := second["reviews"].([]any)[0].(object)
		if first["has_more"] != true || second["has_more"] != false || got["comment"] != "better" || got["rating"] != 5.0 {
			t.Errorf("reviews: %v, %v", first, second)
		}
		for range 2 {
			m.must(theirs, "addMarketplaceFavourite", nil, "listingId", id)
		}
		count := func() any {
			return m.must(ours, "getMarketplaceListing", nil, "listingId", id)["stats"].(object)["favourite_count"]
		}
		if got := count(); got != 1.0 {
			t.Errorf("%v favourites", got)
		}
		for range 2 {
			m.must(theirs, "removeMarketplaceFavourite", nil, "listingId", id)
		}
		if got := count(); got != 0.0 {
			t.Errorf("%v favourites", got)
		}
	})
}
