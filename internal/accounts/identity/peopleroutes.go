package identity

import (
	"reflect"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

// linkLimits keep the secrets of invites from being guessed, and letters from
// being sent without end.
var (
	linkLimits = []route.Limit{{N: 10, Per: time.Minute}, {N: 60, Per: time.Hour}}
	mailLimits = []route.Limit{{N: 60, Per: time.Hour}}
)

// Routes lists the operations about people and their tenants.
func (p *People) Routes() []route.Route {
	const one, invite = "/{userId}", "/invites/{inviteId}"
	transfer := userWrite("POST", one+"/transfer-ownership", "transferTenantOwnership", "Make another member the owner",
		"The caller, who is the owner, becomes an admin. The new owner must be an active member.", 404, 409)
	transfer.Role, transfer.Fresh = authz.Owner, true
	remove := userWrite("DELETE", one, "deleteUser", "Take a member out",
		"Revokes every key of theirs at once. Other companies of the person are not touched.", 404)
	remove.Fresh = true
	create := userWrite("POST", "/invites", "inviteUser", "Invite somebody",
		"The link is mailed. Where no mail is configured the answer has it as invite_url, this once.", 409)
	create.Status, create.Limits = 201, mailLimits
	resend := userWrite("POST", invite+"/resend", "resendInvite", "Send an invite again",
		"With a new link, good for another seven days; the old one opens nothing any more. Once a minute at most.", 404, 409)
	resend.Limits = mailLimits
	revoke := userWrite("DELETE", invite, "deleteInvite", "Revoke an invite", "", 404, 409)
	revoke.Status = 204
	return append([]route.Route{
		route.Action(userRead("", "listUsers", "List the members, the oldest first"), p.listUsers),
		route.Action(with(userRead(one, "getUser", "Read a member"), 404), p.getUser),
		route.Action(remove, p.deleteUser),
		route.Action(userWrite("PUT", one+"/role", "setUserRole", "Change a member's role",
			"Takes effect with the member's next request.", 404), p.setRole),
		route.Action(userWrite("PUT", one+"/suspend", "suspendUser", "Lock a member out",
			"With the next request; open streams end within five seconds.", 404), p.suspend),
		route.Action(userWrite("PUT", one+"/unsuspend", "unsuspendUser", "Let a suspended member in again", "", 404), p.unsuspend),
		route.Action(transfer, p.transfer),
		route.Action(create, p.createInvite),
		route.Action(userRead("/invites", "listInvites", "List the invites that wait for an answer, newest first"), p.listInvites),
		route.Action(revoke, p.revokeInvite),
		route.Action(resend, p.resendInvite),
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/users" + invite + "/accept", ID: "acceptInvite", Tag: "Users",
			Summary: "Accept an invite by its link",
			Doc:     "For somebody who has no key: the token of the link says who it is. Who is signed in with the invited email accepts under /me/invites.",
			Public:  true, Errors: []int{403, 404, 409, 410}, Limits: linkLimits, AnswerOf: reflect.TypeFor[Joining](),
		}, p.acceptByLink),
	}, p.myRoutes()...)
}

func (p *People) myRoutes() []route.Route {
	edit := route.Row{
		Method: "PUT", Path: "/api/v1/tenants/me", ID: "updateTenant", Tag: "Tenants", Summary: "Change what the company says of itself",
		Doc:    "What is left out stays. PUT and PATCH are the same.",
		Scopes: []authz.Scope{"tenants:write"}, Role: authz.Owner, BodyOf: reflect.TypeFor[tenantChange](), Errors: []int{409},
	}
	patch := edit
	patch.Method, patch.ID = "PATCH", "patchTenant"
	me := mine("PATCH", "", "patchMe", "Change one's name or picture", "Of the person in this company.")
	me.BodyOf, me.Tag = reflect.TypeFor[meChange](), "Auth"
	create := with(mine("POST", "/tenants/create", "createMyTenant", "Make a company",
		"The caller's person is its owner and finds it among their companies when they sign in. It needs a verified email address."), 403, 409)
	create.Status = 201
	accept := with(mine("POST", "/invites/{tenantId}/{inviteId}/accept", "acceptMyInvite", "Accept an invite to oneself",
		"The invite must be for the caller's verified email address."), 404, 409, 410)
	accept.Optional = true
	return []route.Route{
		route.Action(edit, p.updateTenant),
		route.Action(patch, p.updateTenant),
		route.Action(me, p.patchMe),
		route.Action(mine("GET", "/tenants", "listMyTenants", "List one's companies, and invites to others", ""), p.myTenants),
		route.Action(create, p.createTenant),
		route.Action(with(mine("POST", "/tenants/switch", "switchTenant", "Change to another of one's companies",
			"The browser session belongs to that membership from now on. A key cannot do this."), 403, 404), p.switchTenant),
		route.Action(with(mine("DELETE", "/memberships/{tenantId}", "leaveTenant", "Leave a company",
			"Revokes one's keys there. The only owner cannot leave."), 404, 409), p.leave),
		route.Action(accept, p.acceptMine),
		route.Action(with(mine("POST", "/invites/{tenantId}/{inviteId}/decline", "declineMyInvite", "Decline an invite to oneself", ""),
			404, 409, 410), p.declineMine),
		route.Action(with(mine("GET", "/agents/{agentId}/locate", "locateMyAgent", "Find which of one's companies has an agent", ""), 404), p.locate),
	}
}

func userRead(path, id, summary string) route.Row {
	return route.Row{
		Method: "GET", Path: "/api/v1/users" + path, ID: id, Tag: "Users", Summary: summary,
		Scopes: []authz.Scope{"users:read"}, Role: authz.Viewer,
	}
}

func userWrite(method, path, id, summary, doc string, refusals ...int) route.Row {
	return route.Row{
		Method: method, Path: "/api/v1/users" + path, ID: id, Tag: "Users", Summary: summary, Doc: doc,
		Scopes: []authz.Scope{"users:write"}, Role: authz.Admin, Errors: refusals,
	}
}

// mine is a row about the caller's own person, which takes whatever key they
// have.
func mine(method, path, id, summary, doc string) route.Row {
	return route.Row{Method: method, Path: "/api/v1/me" + path, ID: id, Tag: "Tenants", Summary: summary, Doc: doc}
}

func with(row route.Row, refusals ...int) route.Row {
	row.Errors = refusals
	return row
}
