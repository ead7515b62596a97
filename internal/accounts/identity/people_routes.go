package identity

import (
	"reflect"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

// LinkLimits keep the tokens of invites from being guessed, and mailLimits
// bound the number of emails.
var (
	LinkLimits = []route.Limit{{N: 10, Per: time.Minute}, {N: 60, Per: time.Hour}}
	mailLimits = []route.Limit{{N: 60, Per: time.Hour}}
)

func (u users) routes() []route.Route {
	const one = "/{userId}"
	transfer := userWrite("POST", one+"/transfer-ownership", "transferTenantOwnership", "Transfer ownership",
		"Makes another member the owner. The caller, who is the owner, becomes an admin. The new owner must be an active member.", 404, 409)
	transfer.Role = authz.Owner
	remove := userWrite("DELETE", one, "deleteUser", "Remove a member",
		"Revokes all keys of the member immediately. The member's other companies are not affected.", 404)
	return []route.Route{
		route.Action(userRead("", "listUsers", "List members, oldest first"), u.listUsers),
		route.Action(with(userRead(one, "getUser", "Get a member"), 404), u.getUser),
		route.Action(remove, u.deleteUser),
		route.Action(userWrite("PUT", one+"/role", "setUserRole", "Change a member's role",
			"Takes effect with the member's next request.", 404), u.setRole),
		route.Action(userWrite("PUT", one+"/suspend", "suspendUser", "Suspend a member",
			"Takes effect with the member's next request; open streams end within five seconds.", 404), u.suspend),
		route.Action(userWrite("PUT", one+"/unsuspend", "unsuspendUser", "Unsuspend a member", "", 404), u.unsuspend),
		route.Action(transfer, u.transfer),
	}
}

func (v invites) routes() []route.Route {
	const invite = "/invites/{inviteId}"
	create := userWrite("POST", "/invites", "inviteUser", "Invite a person",
		"The link is sent by email. Where no mail is configured, the response contains it as invite_url, only once.", 409)
	create.Status, create.Limits = 201, mailLimits
	resend := userWrite("POST", invite+"/resend", "resendInvite", "Resend an invite",
		"Sends a new link, valid for another seven days; the old link becomes invalid. At most once a minute.", 404, 409)
	resend.Limits = mailLimits
	revoke := userWrite("DELETE", invite, "deleteInvite", "Revoke an invite", "", 404, 409)
	revoke.Status = 204
	accept := with(mine("POST", "/invites/{tenantId}/{inviteId}/accept", "acceptMyInvite", "Accept an invite as the signed-in person",
		"The invite must be for the caller's verified email address."), 404, 409, 410)
	accept.Optional = true
	return []route.Route{
		route.Action(create, v.createInvite),
		route.Action(userRead("/invites", "listInvites", "List pending invites, newest first"), v.listInvites),
		route.Action(revoke, v.revokeInvite),
		route.Action(resend, v.resendInvite),
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/users" + invite + "/accept", ID: "acceptInvite", Tag: "Users",
			Summary: "Accept an invite by its link",
			Doc: "For people without a key: the token of the link authenticates them. " +
				"A person who is signed in with the invited email accepts under /me/invites.",
			Public: true, SignIn: true, Errors: []int{403, 404, 409, 410}, Limits: LinkLimits, AnswerOf: reflect.TypeFor[Joining](),
		}, v.acceptByLink),
		route.Action(accept, v.acceptMine),
		route.Action(with(mine("POST", "/invites/{tenantId}/{inviteId}/decline", "declineMyInvite", "Decline an invite", ""),
			404, 409, 410), v.declineMine),
	}
}

func (p tenantProfile) routes() []route.Route {
	put := route.Row{
		Method: "PUT", Path: "/api/v1/tenants/me", ID: "updateTenant", Tag: "Tenants", Summary: "Update the company's profile",
		Doc:    "Fields that are left out stay. PUT and PATCH do the same.",
		Scopes: []authz.Scope{"tenants:write"}, Role: authz.Owner, Fresh: true, BodyOf: reflect.TypeFor[tenantChange](), Errors: []int{404, 409},
		Conditional: true,
	}
	patch := put
	patch.Method, patch.ID = "PATCH", "patchTenant"
	return []route.Route{
		route.Action(put, p.updateTenant),
		route.Action(patch, p.updateTenant),
	}
}

func (p memberships) routes() []route.Route {
	me := mine("PATCH", "", "patchMe", "Update the caller's name or picture", "Changes the caller's member record in this company.")
	me.BodyOf, me.Tag, me.Conditional = reflect.TypeFor[meChange](), "Auth", true
	create := with(mine("POST", "/tenants/create", "createMyTenant", "Create a company",
		"The caller becomes its owner and sees it among their companies when they sign in. Needs a verified email address."), 403, 409)
	create.Status = 201
	leave := with(mine("DELETE", "/memberships/{tenantId}", "leaveTenant", "Leave a company",
		"Revokes the caller's keys in that company. The only owner cannot leave."), 404, 409)
	leave.Fresh = true
	return []route.Route{
		route.Action(me, p.patchMe),
		route.Action(mine("GET", "/tenants", "listMyTenants", "List the caller's companies and pending invites", ""), p.myTenants),
		route.Action(create, p.createTenant),
		route.Action(with(mine("POST", "/tenants/switch", "switchTenant", "Switch to another company",
			"The browser session belongs to the membership in that company from then on. A key cannot do this."), 403, 404), p.switchTenant),
		route.Action(leave, p.leave),
		route.Action(with(mine("GET", "/agents/{agentId}/locate", "locateMyAgent",
			"Find which of the caller's companies has an agent", ""), 404), p.locate),
	}
}

func userRead(path, id, summary string) route.Row {
	return route.Row{
		Method: "GET", Path: "/api/v1/users" + path, ID: id, Tag: "Users", Summary: summary,
		Scopes: []authz.Scope{"users:read"}, Role: authz.Viewer,
	}
}

func userWrite(method, path, id, summary, doc string, errors ...int) route.Row {
	return route.Row{
		Method: method, Path: "/api/v1/users" + path, ID: id, Tag: "Users", Summary: summary, Doc: doc,
		Scopes: []authz.Scope{"users:write"}, Role: authz.Admin, Fresh: true, Errors: errors,
	}
}

// mine returns a row about the caller's own person.
func mine(method, path, id, summary, doc string) route.Row {
	return route.Row{Method: method, Path: "/api/v1/me" + path, ID: id, Tag: "Tenants", Summary: summary, Doc: doc, Person: true}
}

func with(row route.Row, errors ...int) route.Row {
	row.Errors = errors
	return row
}
