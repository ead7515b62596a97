package app

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/go-json-experiment/json"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/accounts/signin"
	"agentd/internal/accounts/signin/signinsql"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/notification"
	"agentd/internal/delivery/notification/notificationsql"
	"agentd/internal/edge/console"
	"agentd/internal/edge/webpage"
	"agentd/internal/wire/oidcclient"
)

// members is the people of tenants, their invites, and how they sign in.
type members struct {
	people *identity.People
	signIn *signin.Service
}

func newMembers(ctx context.Context, p *platform, accounts *accounts, delivery *delivery, agents *agents) (*members, error) {
	providers, err := identityProviders(p)
	if err != nil {
		return nil, err
	}
	people := identity.NewPeople(accounts.identity, identity.PeopleDeps{
		Store: identitysql.NewPeople(p.db), Cursors: p.cursors, PublicURL: p.publicURL, Mail: delivery.mail,
		Notify: func(tx txn.Tx, j identity.Joined) error {
			n, err := inviteAccepted(j)
			if err != nil {
				return err
			}
			return delivery.notifications.Notify(tx, n)
		},
		HasAgent: func(ctx context.Context, tenantID, agentID string) (bool, error) {
			_, err := agents.agents.Get(ctx, tenantID, agentID)
			if fault.Is(err, fault.NotFound) {
				return false, nil
			}
			return err == nil, err
		},
		OnRemove: []func(txn.Tx, string, string) error{notificationsql.New(p.db).DeleteByUserTx},
	})
	recoveryKey, err := p.secrets.Kept(ctx, "signin/recovery")
	if err != nil {
		return nil, err
	}
	codeKey, err := p.secrets.Kept(ctx, "signin/codes")
	if err != nil {
		return nil, err
	}
	signIn := signin.New(signin.Config{
		Writer: p.db, Store: signinsql.New(p.db), Members: identitysql.New(p.db), Sessions: accounts.identity.Sessions,
		SignUp: accounts.identity.Tenants.SignUp,
		Outbox: delivery.mail, Queue: p.queue, Box: p.box, RecoveryKey: recoveryKey, CodeKey: codeKey, Clock: p.clock, Log: p.log, Audit: p.audit,
		Public: p.publicURL, Signup: p.config.Signup, Providers: providers,
		Prove: people.Prove, Invited: people.HasInvite,
	})
	return &members{people: people, signIn: signIn}, nil
}

// connect lets identity ask for second factors, and delete what a removed
// member signed in with.
func (m *members) connect(accounts *accounts) {
	accounts.identity.Sessions.SetFactors(m.signIn)
	m.people.OnRemove(m.signIn.DeleteMember)
}

func (m *members) part(p *platform, accounts *accounts) part {
	return part{
		name:    "members",
		routes:  append(m.people.Routes(), m.signIn.Routes()...),
		workers: []worker{p.worker(signin.WorkKind, 4, m.signIn.Handle)},
		endpoints: slices.Concat(
			webpage.SignIn{
				Service: m.signIn, NamesOf: accounts.identity.NamesOf, SignOut: accounts.identity.SignOut, PublicURL: p.publicURL,
				Home: console.Home, CheckKey: func(ctx context.Context, key string) error {
					_, err := accounts.identity.Authenticate(ctx, key)
					return err
				},
			}.Routes(),
			webpage.Invite{Invitations: m.people, PublicURL: p.publicURL}.Routes(),
		),
	}
}

// identityProviders reads the operator's file of OpenID providers. They may have
// private addresses, because only the operator names them.
func identityProviders(p *platform) ([]signin.ConfiguredProvider, error) {
	path := p.cfg.SignIn.OIDCProviders
	if path == "" {
		return nil, nil
	}
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("AGENTD_OIDC_PROVIDERS: %w", err)
	}
	configs, err := signin.ParseProviders(file)
	if err != nil {
		return nil, fmt.Errorf("AGENTD_OIDC_PROVIDERS: %w", err)
	}
	client := oidcclient.New(p.clock)
	p.onStop(client.Close)
	providers := make([]signin.ConfiguredProvider, len(configs))
	for i, c := range configs {
		providers[i] = signin.ConfiguredProvider{ProviderConfig: c, Port: client.Provider(c)}
	}
	return providers, nil
}

// inviteAccepted is the notification to the person who invited a new member.
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
