package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/accounts/signin"
	"agentd/internal/accounts/signin/signinsql"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/store/sqldb"
)

type signInLinkCommand struct {
	secretSettings
	Tenant string `placeholder:"ID" help:"Id of the tenant. Left out: the first one, which the first start made."`
	Member string `placeholder:"EMAIL|ID" help:"Email address or id of the member. Left out: the oldest owner."`
	URL    string `env:"AGENTD_PUBLIC_URL,AGENTD_URL" name:"url" default:"http://127.0.0.1:8080" placeholder:"URL" help:"Address of the server, with which the link begins: ${default}."`
	JSON   bool   `help:"Print the result as JSON."`
}

// Run implements the command.
func (cmd *signInLinkCommand) Run(inv *invocation) error {
	if base, err := url.Parse(cmd.URL); err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return fmt.Errorf("--url %q is no address of a server; give one as http://127.0.0.1:8080", cmd.URL)
	}
	return cmd.withDatabase(inv, func(db *sqldb.DB, box *secret.Box) error {
		m, err := cmd.member(inv, db)
		if err != nil {
			return err
		}
		links := signin.OneTimeLinks{Store: signinsql.New(db), Box: box, Clock: clock.System{}, Audit: auditLog(db)}
		var token string
		var expires time.Time
		err = db.Write(inv, func(tx txn.Tx) (err error) {
			token, expires, err = links.Create(tx, authz.Caller{Method: audit.CommandLine}, m)
			return err
		})
		if err != nil {
			return err
		}
		link := strings.TrimRight(cmd.URL, "/") + signin.LinkPath + "?token=" + token
		if cmd.JSON {
			return inv.printAny(struct {
				UserID    string    `json:"user_id"`
				URL       string    `json:"url"`
				Token     string    `json:"token"`
				ExpiresAt time.Time `json:"expires_at"`
			}{m.UserID, link, token, expires})
		}
		fmt.Fprintln(inv.stdout, link)
		inv.note("Open it in a browser within 15 minutes: it signs %s in, once.", oneLine(nameOf(m)))
		return nil
	})
}

// nameOf returns what the operator knows a member by.
func nameOf(m identity.Member) string {
	for _, name := range []string{m.Email, m.Name} {
		if name != "" {
			return name
		}
	}
	return "the " + string(m.Role) + " " + m.UserID
}

// member finds the member whom the link is for.
func (cmd *signInLinkCommand) member(ctx context.Context, db *sqldb.DB) (m identity.Member, err error) {
	store := identitysql.New(db)
	tenant := cmd.Tenant
	if tenant == "" {
		if tenant, err = store.GetOperator(ctx); errors.Is(err, identity.ErrNotFound) {
			return m, errors.New("there is no tenant yet; the first start of the server makes one, and prints such a link")
		}
	} else {
		_, err = store.GetTenant(ctx, tenant)
	}
	switch {
	case errors.Is(err, identity.ErrNotFound):
		return m, errors.New("there is no such tenant; list them with: agentd admin tenant list")
	case err != nil:
		return m, err
	case cmd.Member == "":
		return oldestOwner(ctx, identitysql.NewPeople(db), tenant)
	case strings.Contains(cmd.Member, "@"):
		err = db.Write(ctx, func(tx txn.Tx) (err error) {
			m, err = store.GetMemberByEmailTx(tx, tenant, strings.ToLower(strings.TrimSpace(cmd.Member)))
			return err
		})
	default:
		m, err = store.GetMember(ctx, tenant, cmd.Member)
	}
	switch {
	case errors.Is(err, identity.ErrNotFound), err == nil && m.Status == identity.Deleted:
		return m, fmt.Errorf("the tenant has no member %s", oneLine(cmd.Member))
	case err == nil && m.Status != identity.Active:
		return m, fmt.Errorf("%s is %s and cannot sign in", oneLine(cmd.Member), m.Status)
	}
	return m, err
}

// oldestOwner returns the first active owner of a tenant.
func oldestOwner(ctx context.Context, people *identitysql.People, tenant string) (identity.Member, error) {
	const page = 100
	for after := ""; ; {
		found, err := people.ListMembers(ctx, tenant, after, page)
		if err != nil {
			return identity.Member{}, err
		}
		for _, m := range found {
			if m.Role == authz.Owner && m.Status == identity.Active {
				return m, nil
			}
		}
		if len(found) < page {
			return identity.Member{}, errors.New("the tenant has no active owner; name a member with --member")
		}
		after = found[page-1].UserID
	}
}
