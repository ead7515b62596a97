package marketplace

import (
	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

const collection = "/api/v1/marketplace"

// Routes returns the operations of the marketplace.
func (s *Service) Routes() []route.Route {
	row := func(method, path, id, summary string, errors ...int) route.Row {
		r := route.Row{
			Method: method, Path: collection + path, ID: id, Tag: "Marketplace", Summary: summary, Errors: errors,
			Scopes: []authz.Scope{"marketplace:read"},
		}
		if method != "GET" {
			r.Scopes, r.Role = []authz.Scope{"marketplace:write"}, authz.Developer
		}
		return r
	}
	const item = "/listings/{listingId}"
	create := row("POST", "/listings", "createMarketplaceListing", "List an agent on the marketplace")
	create.Status, create.Errors, create.Doc = 201, []int{404}, "A listing is a draft, which only the company sees, until it is published."
	rate := row("POST", item+"/rate", "rateMarketplaceListing", "Rate a listing")
	rate.Status, rate.Doc = 201, "Of another company. A company's second rating replaces its first."
	reviews := row("GET", item+"/reviews", "listMarketplaceReviews", "List the ratings of a listing, newest first")
	reviews.Public, reviews.Scopes = true, nil
	subscribe := row("POST", item+"/subscribe", "subscribeToMarketplaceListing", "Subscribe to a listing")
	subscribe.Status, subscribe.Optional = 201, true
	subscribe.Doc = "Books the price of a month, which the company owes the owner."
	invoke := row("POST", item+"/invoke", "invokeMarketplaceListing", "Invoke a listing", 409)
	invoke.Status, invoke.Scopes = 202, []authz.Scope{"marketplace:invoke"}
	invoke.Doc = "Starts a run of the agent in the company that offers it. The caller sees the input and the final answer, " +
		"and nothing of the run. " +
		"The price is booked when it has completed."
	remove := row("DELETE", item, "deleteMarketplaceListing", "Unpublish a listing, or delete a draft")
	return []route.Route{
		route.Action(row("GET", "/search", "searchMarketplace", "Search published listings"), s.search),
		route.Action(row("GET", "/categories", "listMarketplaceCategories", "List the categories of listings"), s.listCategories),
		route.Action(row("GET", "/listings", "listMarketplaceListings", "List the company's own listings, newest first"), s.listOwn),
		route.Action(create, s.create),
		route.Action(row("GET", item, "getMarketplaceListing", "Get a listing"), s.get),
		route.Action(row("PATCH", item, "patchMarketplaceListing", "Update a listing"), s.change),
		route.Action(remove, s.remove),
		route.Action(row("POST", item+"/publish", "publishMarketplaceListing", "Publish a listing", 409), s.publish),
		route.Action(row("POST", item+"/deprecate", "deprecateMarketplaceListing", "Take a listing back", 409), s.deprecate),
		route.Action(rate, s.rate),
		route.Action(reviews, s.listReviews),
		route.Action(row("PUT", item+"/favourite", "addMarketplaceFavourite", "Make a listing a favourite"), s.addFavourite),
		route.Action(row("DELETE", item+"/favourite", "removeMarketplaceFavourite", "Remove a listing from your favourites"), s.removeFavourite),
		route.Action(subscribe, s.subscribe),
		route.Action(row("DELETE", item+"/subscribe", "unsubscribeFromMarketplaceListing", "Unsubscribe from a listing"), s.unsubscribe),
		route.Action(row("GET", "/subscriptions", "listMarketplaceSubscriptions", "List the company's subscriptions"), s.listSubscriptions),
		route.Action(invoke, s.invoke),
		route.Action(row("GET", "/invocations", "listMarketplaceInvocations", "List the company's invocations, newest first"), s.listInvocations),
		route.Action(row("GET", "/invocations/{invocationId}", "getMarketplaceInvocation", "Get an invocation"), s.getInvocation),
		route.Action(row("GET", "/revenue", "getMarketplaceRevenue", "Get what the company earned and spent"), s.getRevenue),
	}
}
