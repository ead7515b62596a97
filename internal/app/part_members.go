package app

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"

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
	"agentd/internal/operation/loginprovider"
	"agentd/internal/wire/oidcclient"
	"agentd/internal/wire/outbound"
)

// members is the people of tenants, their invites, and how they sign in.
type members struct {
	people    *identity.People
	signIn    *signin.Service
	providers *loginprovider.Service // that the operator adds while the program runs
}

func newMembers(
	ctx context.Context, p *platform, out *egress, accounts *accounts, delivery *delivery, agents *agents,
) (*members, error) {
	providers, err := identityProviders(p)
	if err != nil {
		return nil, err
	}
	added, addedProviders := addedProviders(p, out)
	people := identity.NewPeople(accounts.identity, identity.PeopleDeps{
		Store: identitysql.NewPeople(p.db), Cursors: p.cursors, PublicURL: p.publicURL, Mail: delivery.mail,
		OnSettings: func() { p.hub.Signal(signalTenants, "") },
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
		Public: p.publicURL, Signup: p.config.Signup, Providers: providers, Added: addedProviders,
		Prove: people.Prove, Invited: people.HasInvite,
	})
	return &members{people: people, signIn: signIn, providers: added}, nil
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
		routes:  slices.Concat(m.people.Routes(), m.signIn.Routes(), m.providers.Routes()),
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

// addedProviders adds the setting of providers to the operator's settings. They are called
// over the guarded client, as other addresses that are set while the program runs.
func addedProviders(p *platform, out *egress) (*loginprovider.Service, func() []signin.ConfiguredProvider) {
	client := oidcclient.NewOver(p.clock, out.screened.Transport())
	var now atomic.Pointer[[]signin.ConfiguredProvider]
	now.Store(&[]signin.ConfiguredProvider{})
	s := loginprovider.New(loginprovider.Deps{
		Settings: p.settings, ValidID: signin.ValidProviderID,
		CheckIssuer: func(_ context.Context, url string) error {
			if err := signin.CheckIssuer(url); err != nil {
				return err
			}
			return outbound.CheckURL(url)
		},
		Changed: func(set map[string]loginprovider.Provider) {
			all := []signin.ConfiguredProvider{}
			for _, id := range slices.Sorted(maps.Keys(set)) {
				one := set[id]
				c := signin.ProviderConfig{
					ID: id, Name: one.Name, Issuer: one.Issuer, ClientID: one.ClientID, ClientSecret: one.ClientSecret, Scopes: slices.Clone(one.Scopes),
				}
				c.Complete()
				all = append(all, signin.ConfiguredProvider{ProviderConfig: c, Port: client.Provider(c)})
			}
			now.Store(&all)
		},
	})
	return s, func() []signin.ConfiguredProvider { return *now.Load() }
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
