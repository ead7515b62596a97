package identity

import (
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
)

// TenantUser is a member as the other members see them.
type TenantUser struct {
	_ struct{} `json:"-" name:"TenantUser"`

	ID          string     `json:"id" format:"uuid" required:"true"`
	TenantID    string     `json:"tenant_id" required:"true"`
	Email       string     `json:"email" required:"true" doc:"Empty if unknown."`
	Name        string     `json:"name" required:"true"`
	Role        authz.Role `json:"role" enum:"viewer,developer,admin,owner" required:"true"`
	Status      Status     `json:"status" enum:"active,suspended" required:"true"`
	AvatarURL   *string    `json:"avatar_url"`
	LastLoginAt *time.Time `json:"last_login_at" doc:"When the member last signed in to the company in a browser."`
	CreatedAt   time.Time  `json:"created_at" required:"true"`
	UpdatedAt   time.Time  `json:"updated_at" required:"true"`
}

// users lists and changes the members of a tenant.
type users struct {
	*roster
	db      txn.Writer
	cursors *page.Cursors
}

func shownUser(m Member) TenantUser {
	return TenantUser{
		ID: m.UserID, TenantID: m.TenantID, Email: m.Email, Name: m.Name, Role: m.Role, Status: m.Status,
		AvatarURL: textOrNull(m.AvatarURL), LastLoginAt: timeOrNull(m.LastLogin), CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt,
	}
}

// UserList answers GET /users.
type UserList struct {
	_ struct{} `json:"-" name:"UserList"`

	Items   []TenantUser `json:"items" required:"true"`
	Users   []TenantUser `json:"users" required:"true" deprecated:"true" doc:"Same as items."`
	Total   int          `json:"total" required:"true" doc:"Number of users on all pages."`
	HasMore *bool        `json:"has_more,omitzero"`
	Cursor  *string      `json:"cursor,omitzero"`
}

func (u users) listUsers(ctx context.Context, who authz.Caller, in *pageIn) (*UserList, error) {
	members, more, cursor, err := windowed(u.cursors, page.ScopeOf(who.TenantID, "users", in), in,
		func(m Member) string { return m.UserID },
		func(after string, limit int) ([]Member, error) {
			return u.store.ListMembers(ctx, who.TenantID, after, limit)
		})
	if err != nil {
		return nil, err
	}
	total, err := u.store.CountMembers(ctx, who.TenantID)
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

func (u users) getUser(ctx context.Context, who authz.Caller, in *userIn) (TenantUser, error) {
	m, err := u.members.GetMember(ctx, who.TenantID, in.UserID)
	if err != nil {
		return TenantUser{}, notFound(err, "user")
	}
	return shownUser(m), nil
}

// change runs an admin's change of another member. It reads the rights of who
// again, and refuses to change an owner: only a transfer does that.
func (u users) change(ctx context.Context, who authz.Caller, userID string, do func(tx txn.Tx, actor Member, m *Member) error) error {
	return u.db.Write(ctx, func(tx txn.Tx) error {
		_, actor, err := u.acting(tx, who, authz.Admin)
		if err != nil {
			return err
		}
		m, err := u.member(tx, who.TenantID, userID)
		if err != nil {
			return err
		}
		if m.Role == authz.Owner {
			return transferInstead("An owner cannot be changed here")
		}
		return do(tx, actor, &m)
	})
}

func transferInstead(what string) error {
	return fault.New(fault.Forbidden, "",
		"%s: only the owner can transfer the role owner, by POST /api/v1/users/{userId}/transfer-ownership.", what)
}

type roleIn struct {
	UserID string `path:"userId"`
	Body   struct {
		Role authz.Role `json:"role" enum:"viewer,developer,admin,owner" required:"true" doc:"Not owner: use transfer-ownership for that."`
	}
}

// RoleSet answers PUT /users/{userId}/role.
type RoleSet struct {
	Updated bool       `json:"updated"`
	UserID  string     `json:"user_id"`
	Role    authz.Role `json:"role"`
}

func (u users) setRole(ctx context.Context, who authz.Caller, in *roleIn) (RoleSet, error) {
	role, out := in.Body.Role, RoleSet{Updated: true, UserID: in.UserID, Role: in.Body.Role}
	err := u.change(ctx, who, in.UserID, func(tx txn.Tx, actor Member, m *Member) error {
		if role == authz.Owner {
			return transferInstead("The role owner cannot be granted here")
		}
		if !actor.Role.AtLeast(role) {
			return fault.New(fault.Forbidden, "", "You cannot grant a role above your own, which is %s.", actor.Role)
		}
		if before := m.Role; before != role {
			if !before.AtLeast(role) {
				if err := mayGrant(who, role); err != nil {
					return err
				}
			}
			m.Role = role
			if err := u.update(tx, m); err != nil {
				return err
			}
			if err := u.note(tx, who, "user.role_changed", "user", m.UserID, details{"from": before, "to": role}); err != nil {
				return err
			}
		}
		return txn.Answer(tx, out)
	})
	return out, err
}

// UserSuspended answers PUT /users/{userId}/suspend.
type UserSuspended struct {
	Suspended bool   `json:"suspended"`
	UserID    string `json:"user_id"`
}

func (u users) suspend(ctx context.Context, who authz.Caller, in *userIn) (UserSuspended, error) {
	out := UserSuspended{Suspended: true, UserID: in.UserID}
	return out, u.setStatus(ctx, who, in.UserID, Suspended, "user.suspended", out)
}

// UserUnsuspended answers PUT /users/{userId}/unsuspend.
type UserUnsuspended struct {
	OK          bool   `json:"ok"`
	Unsuspended bool   `json:"unsuspended"`
	UserID      string `json:"user_id"`
}

func (u users) unsuspend(ctx context.Context, who authz.Caller, in *userIn) (UserUnsuspended, error) {
	out := UserUnsuspended{OK: true, Unsuspended: true, UserID: in.UserID}
	return out, u.setStatus(ctx, who, in.UserID, Active, "user.unsuspended", out)
}

func (u users) setStatus(ctx context.Context, who authz.Caller, userID string, status Status, action string, out any) error {
	return u.change(ctx, who, userID, func(tx txn.Tx, _ Member, m *Member) error {
		if m.Status != status {
			if status == Active {
				if err := mayGrant(who, m.Role); err != nil {
					return err
				}
			}
			m.Status = status
			if err := u.update(tx, m); err != nil {
				return err
			}
			if err := u.note(tx, who, action, "user", m.UserID, nil); err != nil {
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

func (u users) deleteUser(ctx context.Context, who authz.Caller, in *userIn) (UserDeleted, error) {
	out := UserDeleted{Deleted: true, UserID: in.UserID}
	err := u.change(ctx, who, in.UserID, func(tx txn.Tx, _ Member, m *Member) error {
		d := details{"email": m.Email, "role": m.Role}
		if err := u.remove(tx, *m); err != nil {
			return err
		}
		if err := u.note(tx, who, "user.deleted", "user", m.UserID, d); err != nil {
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
	NewOwner      string `json:"new_owner" doc:"ID of the new owner."`
	NewOwnerID    string `json:"new_owner_id" deprecated:"true" doc:"Same as new_owner."`
	PreviousOwner string `json:"previous_owner" doc:"ID of the previous owner, now an admin."`
}

// transfer makes another member the owner; the caller, who was the owner,
// becomes an admin. Of two concurrent transfers by one owner the second fails,
// because its caller is no longer the owner.
func (u users) transfer(ctx context.Context, who authz.Caller, in *userIn) (Transferred, error) {
	return withAnswer(ctx, u.db, func(tx txn.Tx) (Transferred, error) {
		_, owner, err := u.acting(tx, who, authz.Owner)
		if err != nil {
			return Transferred{}, err
		}
		successor, err := u.member(tx, who.TenantID, in.UserID)
		switch {
		case err != nil:
			return Transferred{}, err
		case successor.Role == authz.Owner:
			return Transferred{}, fault.New(fault.Conflict, "", "This user is already an owner of the company.")
		case successor.Status != Active:
			return Transferred{}, fault.WrongState("user", string(successor.Status), "a transfer of ownership")
		}
		if err := mayGrant(who, authz.Owner); err != nil {
			return Transferred{}, err
		}
		successor.Role, owner.Role = authz.Owner, authz.Admin
		if err := u.update(tx, &successor); err != nil {
			return Transferred{}, err
		}
		if err := u.update(tx, &owner); err != nil {
			return Transferred{}, err
		}
		return Transferred{OK: true, Transferred: true, NewOwner: successor.UserID, NewOwnerID: successor.UserID, PreviousOwner: owner.UserID},
			u.note(tx, who, "tenant.ownership_transferred", "user", successor.UserID, details{"from": owner.UserID, "to": successor.UserID})
	})
}
