package identity

import (
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
)

// TenantUser is a member as the others see them.
type TenantUser struct {
	_ struct{} `json:"-" name:"TenantUser"`

	ID          string     `json:"id" format:"uuid" required:"true"`
	TenantID    string     `json:"tenant_id" required:"true"`
	Email       string     `json:"email" required:"true" doc:"Empty where none is known."`
	Name        string     `json:"name" required:"true"`
	Role        authz.Role `json:"role" enum:"viewer,developer,admin,owner" required:"true"`
	Status      Status     `json:"status" enum:"active,suspended" required:"true"`
	AvatarURL   *string    `json:"avatar_url"`
	LastLoginAt *time.Time `json:"last_login_at" doc:"When this person last signed in to the company in a browser."`
	CreatedAt   time.Time  `json:"created_at" required:"true"`
	UpdatedAt   time.Time  `json:"updated_at" required:"true"`
}

func shownUser(m Member) TenantUser {
	return TenantUser{
		ID: m.UserID, TenantID: m.TenantID, Email: m.Email, Name: m.Name, Role: m.Role, Status: m.Status,
		AvatarURL: textOrNull(m.AvatarURL), LastLoginAt: timeOrNull(m.LastLogin), CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt,
	}
}

// textOrNull is a text as the API sends it: null where there is none.
func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// mostPeople is how many users or invites a page has at most, and how many are
// read at a time.
const mostPeople = 200

type pageIn struct {
	Limit  string `query:"limit" doc:"How many per page, 1 to 200; all of them if it is left out."`
	Cursor string `query:"cursor"`
}

// windowed reads a list of family B (behaviours.md 0.2): as a whole, unless a
// limit or a cursor asks for a page. more is nil where no page was asked for.
func windowed[T any](c *page.Cursors, scope page.Scope, in *pageIn, id func(T) string,
	list func(after string, limit int) ([]T, error),
) (all []T, more *bool, cursor *string, err error) {
	after, err := c.Open(scope, in.Cursor)
	if err != nil {
		return nil, nil, nil, err
	}
	limit, paged := mostPeople, in.Limit != "" || in.Cursor != ""
	if paged {
		limit = page.Limit(in.Limit, mostPeople, mostPeople)
	}
	all = []T{}
	for {
		some, err := list(after, limit+1)
		if err != nil {
			return nil, nil, nil, err
		}
		left := len(some) > limit
		all = append(all, some[:min(limit, len(some))]...)
		if left {
			after = id(all[len(all)-1])
		}
		switch {
		case paged && left:
			next := c.Seal(scope, after)
			return all, &left, &next, nil
		case paged:
			return all, &left, nil, nil
		case !left:
			return all, nil, nil, nil
		}
	}
}

// UserList answers GET /users.
type UserList struct {
	_ struct{} `json:"-" name:"UserList"`

	Items   []TenantUser `json:"items" required:"true"`
	Users   []TenantUser `json:"users" required:"true" deprecated:"true" doc:"The items once more, under their older name."`
	Total   int          `json:"total" required:"true" doc:"How many there are on all pages."`
	HasMore *bool        `json:"has_more,omitzero"`
	Cursor  *string      `json:"cursor,omitzero"`
}

func (p *People) listUsers(ctx context.Context, who authz.Caller, in *pageIn) (*UserList, error) {
	members, more, cursor, err := windowed(p.Cursors, page.Scope{Tenant: who.TenantID, List: "users"}, in,
		func(m Member) string { return m.UserID },
		func(after string, limit int) ([]Member, error) {
			return p.Store.ListMembers(ctx, who.TenantID, after, limit)
		})
	if err != nil {
		return nil, err
	}
	total, err := p.Store.CountMembers(ctx, who.TenantID)
	if err != nil {
		return nil, err
	}
	items := make([]TenantUser, len(members))
	for i, m := range members {
		items[i] = shownUser(m)
	}
	return &UserList{Items: items, Users: items, Total: total, HasMore: more, Cursor: cursor}, nil
}

type userIn struct {
	UserID string `path:"userId"`
}

func (p *People) getUser(ctx context.Context, who authz.Caller, in *userIn) (TenantUser, error) {
	m, err := p.store.GetMember(ctx, who.TenantID, in.UserID)
	if err != nil {
		return TenantUser{}, gone(err, "user")
	}
	return shownUser(m), nil
}

// change has an admin change another member. who does it is looked at anew,
// and an owner is changed by a transfer only.
func (p *People) change(ctx context.Context, who authz.Caller, userID string, do func(tx txn.Tx, actor Member, m *Member) error) error {
	return p.db.Write(ctx, func(tx txn.Tx) error {
		_, actor, err := p.acting(tx, who, authz.Admin)
		if err != nil {
			return err
		}
		m, err := p.user(tx, who.TenantID, userID)
		if err != nil {
			return err
		}
		if m.Role == authz.Owner {
			return transferInstead("An owner is not changed here")
		}
		return do(tx, actor, &m)
	})
}

func transferInstead(what string) error {
	return fault.New(fault.Forbidden, "", "%s: only the owner can give the role owner away, by POST /api/v1/users/{userId}/transfer-ownership.", what)
}

type roleIn struct {
	UserID string `path:"userId"`
	Body   struct {
		Role authz.Role `json:"role" enum:"viewer,developer,admin,owner" required:"true" doc:"Not owner: see the transfer of ownership."`
	}
}

// RoleSet answers PUT /users/{userId}/role.
type RoleSet struct {
	Updated bool       `json:"updated"`
	UserID  string     `json:"user_id"`
	Role    authz.Role `json:"role"`
}

func (p *People) setRole(ctx context.Context, who authz.Caller, in *roleIn) (RoleSet, error) {
	role, out := in.Body.Role, RoleSet{Updated: true, UserID: in.UserID, Role: in.Body.Role}
	err := p.change(ctx, who, in.UserID, func(tx txn.Tx, actor Member, m *Member) error {
		if role == authz.Owner {
			return transferInstead("The role owner is not granted here")
		}
		if !actor.Role.AtLeast(role) {
			return fault.New(fault.Forbidden, "", "Nobody can grant a role above their own, which is %s.", actor.Role)
		}
		if was := m.Role; was != role {
			m.Role = role
			if err := p.put(tx, m); err != nil {
				return err
			}
			if err := p.note(tx, who, "user.role_changed", "user", m.UserID, details{"from": was, "to": role}); err != nil {
				return err
			}
		}
		return txn.Answer(tx, out)
	})
	return out, err
}

// put writes a member whose rights have changed.
func (p *People) put(tx txn.Tx, m *Member) error {
	m.UpdatedAt = p.clock.Now()
	p.Forget(tx)
	return p.Store.UpdateMemberTx(tx, *m)
}

// UserSuspended answers PUT /users/{userId}/suspend.
type UserSuspended struct {
	Suspended bool   `json:"suspended"`
	UserID    string `json:"user_id"`
}

func (p *People) suspend(ctx context.Context, who authz.Caller, in *userIn) (UserSuspended, error) {
	out := UserSuspended{Suspended: true, UserID: in.UserID}
	return out, p.setStatus(ctx, who, in.UserID, Suspended, "user.suspended", out)
}

// UserUnsuspended answers PUT /users/{userId}/unsuspend.
type UserUnsuspended struct {
	OK          bool   `json:"ok"`
	Unsuspended bool   `json:"unsuspended"`
	UserID      string `json:"user_id"`
}

func (p *People) unsuspend(ctx context.Context, who authz.Caller, in *userIn) (UserUnsuspended, error) {
	out := UserUnsuspended{OK: true, Unsuspended: true, UserID: in.UserID}
	return out, p.setStatus(ctx, who, in.UserID, Active, "user.unsuspended", out)
}

func (p *People) setStatus(ctx context.Context, who authz.Caller, userID string, status Status, action string, out any) error {
	return p.change(ctx, who, userID, func(tx txn.Tx, _ Member, m *Member) error {
		if m.Status != status {
			m.Status = status
			if err := p.put(tx, m); err != nil {
				return err
			}
			if err := p.note(tx, who, action, "user", m.UserID, nil); err != nil {
				return err
			}
		}
		return txn.Answer(tx, out)
	})
}

// UserDeleted answers DELETE /users/{userId}.
type UserDeleted struct {
	Deleted bool   `json:"deleted"`
	UserID  string `json:"user_id"`
}

func (p *People) deleteUser(ctx context.Context, who authz.Caller, in *userIn) (UserDeleted, error) {
	out := UserDeleted{Deleted: true, UserID: in.UserID}
	err := p.change(ctx, who, in.UserID, func(tx txn.Tx, _ Member, m *Member) error {
		d := details{"email": m.Email, "role": m.Role}
		if err := p.remove(tx, *m); err != nil {
			return err
		}
		if err := p.note(tx, who, "user.deleted", "user", m.UserID, d); err != nil {
			return err
		}
		return txn.Answer(tx, out)
	})
	return out, err
}

// Transferred answers POST /users/{userId}/transfer-ownership.
type Transferred struct {
	OK            bool   `json:"ok"`
	Transferred   bool   `json:"transferred"`
	NewOwner      string `json:"new_owner" doc:"Id of the member who is owner now."`
	NewOwnerID    string `json:"new_owner_id" deprecated:"true" doc:"The same as new_owner."`
	PreviousOwner string `json:"previous_owner" doc:"Id of the member who is admin now."`
}

// transfer makes another member the owner in the caller's place, who becomes
// an admin. Of two transfers at once by one owner, one finds no owner any more.
func (p *People) transfer(ctx context.Context, who authz.Caller, in *userIn) (Transferred, error) {
	return answering(ctx, p.db, func(tx txn.Tx) (Transferred, error) {
		_, owner, err := p.acting(tx, who, authz.Owner)
		if err != nil {
			return Transferred{}, err
		}
		heir, err := p.user(tx, who.TenantID, in.UserID)
		switch {
		case err != nil:
			return Transferred{}, err
		case heir.Role == authz.Owner:
			return Transferred{}, fault.New(fault.Conflict, "", "This user is an owner of the company already.")
		case heir.Status != Active:
			return Transferred{}, fault.WrongState("user", string(heir.Status), "a transfer of ownership")
		}
		heir.Role, owner.Role = authz.Owner, authz.Admin
		if err := p.put(tx, &heir); err != nil {
			return Transferred{}, err
		}
		if err := p.put(tx, &owner); err != nil {
			return Transferred{}, err
		}
		return Transferred{OK: true, Transferred: true, NewOwner: heir.UserID, NewOwnerID: heir.UserID, PreviousOwner: owner.UserID},
			p.note(tx, who, "tenant.ownership_transferred", "user", heir.UserID, details{"from": owner.UserID, "to": heir.UserID})
	})
}
