package app

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/notification"
	"agentd/internal/delivery/notification/notificationsql"
	"agentd/internal/kernel/mail"
)

// buildMembers makes what manages members and invites.
func (a *App) buildMembers(cursors *page.Cursors, agents *agent.Agents, notes *notification.Service, post mail.Outbox) *identity.People {
	return identity.NewPeople(a.people, identity.PeopleDeps{
		Store: identitysql.NewPeople(a.db), Cursors: cursors, PublicURL: a.public, Mail: post,
		Notify: func(tx txn.Tx, j identity.Joined) error {
			n, err := inviteAccepted(j)
			if err != nil {
				return err
			}
			return notes.Notify(tx, n)
		},
		HasAgent: func(ctx context.Context, tenantID, agentID string) (bool, error) {
			_, err := agents.Get(ctx, tenantID, agentID)
			if fault.Is(err, fault.NotFound) {
				return false, nil
			}
			return err == nil, err
		},
		OnRemove: []func(txn.Tx, string, string) error{notificationsql.New(a.db).DeleteByUserTx},
	})
}

// inviteAccepted is what an inviter is told.
func inviteAccepted(j identity.Joined) (notification.Notification, error) {
	data, err := json.Marshal(struct {
		UserID string     `json:"user_id"`
		Email  string     `json:"email"`
		Role   authz.Role `json:"role"`
	}{j.UserID, j.Email, j.Role})
	return notification.Notification{
		TenantID: j.TenantID, UserID: &j.Inviter, Type: notification.InviteAccepted, Priority: notification.Success,
		Title: "An invite was accepted", Message: fmt.Sprintf("%s (%s) is a member now, as %s.", j.Name, j.Email, j.Role),
		Data: data, ActionURL: "/api/v1/users/" + j.UserID,
	}, err
}
