package apptest

import (
	"crypto/sha256"
	"log/slog"
	"testing"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/content/artifact"
	"agentd/internal/content/artifact/artifactsql"
	"agentd/internal/delivery/notification"
	"agentd/internal/delivery/notification/notificationsql"
	"agentd/internal/kernel/blob"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/blobsql"
	"agentd/internal/store/sqldb"
)

// Admin is what an operator can do beside a running server: `agentd admin`
// works like this, on connections of its own.
type Admin struct {
	*identity.Service
	T  testing.TB
	DB *sqldb.DB

	tenanted []string // tables with rows of companies, once they were looked for
}

// Admin opens the server's database.
func (n *Server) Admin() *Admin {
	n.T.Helper()
	c := sqldb.Config{URL: n.Config.Storage.DatabaseURL.Reveal(), Logger: slog.New(slog.DiscardHandler)}
	if c.URL == "" {
		c.Dir = n.Config.Storage.DataDir
	}
	db, err := sqldb.Open(n.T.Context(), c)
	if err != nil {
		n.T.Fatal(err)
	}
	n.T.Cleanup(func() { db.Close() })
	people := identity.New(identity.Config{DB: db, Store: identitysql.New(db), Clock: clock.System{}, Log: c.Logger})
	return &Admin{Service: people, T: n.T, DB: db}
}

// Exec changes what no operation changes yet.
func (a *Admin) Exec(query string, args ...any) {
	a.T.Helper()
	err := a.DB.Write(a.T.Context(), func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(query, args...)
		return err
	})
	if err != nil {
		a.T.Fatal(err)
	}
}

// CreateKey makes a member with a role and a key with scopes.
func (a *Admin) CreateKey(tenant string, role authz.Role, scopes ...authz.Scope) identity.Grant {
	a.T.Helper()
	if scopes == nil {
		scopes = []authz.Scope{}
	}
	g, err := a.Keys.Grant(a.T.Context(), tenant, role, scopes, string(role), "")
	if err != nil {
		a.T.Fatal(err)
	}
	return g
}

// Query returns the rows of a query by the names of their columns.
func (a *Admin) Query(query string, args ...any) (all []map[string]any) {
	a.T.Helper()
	rows, err := a.DB.Query(a.T.Context(), query, args...)
	if err != nil {
		a.T.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		a.T.Fatal(err)
	}
	for rows.Next() {
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			a.T.Fatal(err)
		}
		row := map[string]any{}
		for i, name := range columns {
			row[name] = values[i]
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		a.T.Fatal(err)
	}
	return all
}

// SaveArtifact adds a file to a run that has ended.
func (a *Admin) SaveArtifact(tenant, run, name string) string {
	a.T.Helper()
	if tenant == "" {
		tenant = a.Query(`SELECT tenant_id FROM runs WHERE run_id = ?`, run)[0]["tenant_id"].(string)
	}
	blobs := &blob.Store{Table: blobsql.New(a.DB), Writer: a.DB, Clock: clock.System{}}
	s := &artifact.Service{Table: artifactsql.New(a.DB), Blobs: blobs, Clock: clock.System{}}
	made, op, err := s.Save(a.T.Context(), tenant, run, []tool.File{{Name: name, MimeType: "text/plain", Data: []byte(name)}})
	if err == nil {
		err = a.DB.Write(a.T.Context(), op)
	}
	if err != nil {
		a.T.Fatal(err)
	}
	return made[0].ArtifactID
}

// Notify creates notifications in a tenant and returns their IDs.
func (a *Admin) Notify(tenant string, titles ...string) (ids []string) {
	a.T.Helper()
	store := notificationsql.New(a.DB)
	s := notification.New(notification.Deps{Store: store, Writer: a.DB, Clock: clock.System{}, Hub: event.NewHub()})
	for _, title := range titles {
		err := a.DB.Write(a.T.Context(), func(tx txn.Tx) error {
			return s.Notify(tx, notification.Notification{TenantID: tenant, Type: notification.SystemAlert, Title: title})
		})
		if err != nil {
			a.T.Fatal(err)
		}
	}
	all, err := store.List(a.T.Context(), tenant, "", notification.Filter{}, len(titles))
	if err != nil {
		a.T.Fatal(err)
	}
	for _, n := range all {
		ids = append(ids, n.ID)
	}
	return ids
}

// OpenBrowserSession opens a browser session as signing in does, and returns the
// headers that the browser sends.
func (a *Admin) OpenBrowserSession(tenant, user string, d identity.Device) (id string, cookie []string) {
	a.T.Helper()
	var one identity.Session
	var raw identity.RawSession
	err := a.DB.Write(a.T.Context(), func(tx txn.Tx) (err error) {
		one, raw, err = a.Sessions.Open(tx, identity.Member{TenantID: tenant, UserID: user}, d)
		return err
	})
	if err != nil {
		a.T.Fatal(err)
	}
	return one.SessionID, []string{"Cookie", "svc_session=" + string(raw)}
}

// StoreInvite stores an invite and returns its ID and the token of its link.
func (a *Admin) StoreInvite(tenant, by, email string) (id, token string) {
	a.T.Helper()
	id, token = ident.New(), ident.New()
	now := time.Now()
	err := a.DB.Write(a.T.Context(), func(tx txn.Tx) error {
		return identitysql.NewPeople(a.DB).CreateInviteTx(tx, identity.Invite{
			TenantID: tenant, InviteID: id, Email: email, Role: authz.Viewer, Status: identity.Pending, InvitedBy: by,
			Secret: sha256.Sum256([]byte(token)), CreatedAt: now, SentAt: now.Add(-time.Hour), ExpiresAt: now.Add(time.Hour),
		})
	})
	if err != nil {
		a.T.Fatal(err)
	}
	return id, token
}

// SuspendedTenant creates a suspended tenant and returns a key of it.
func SuspendedTenant(t *testing.T, a *Admin) string {
	t.Helper()
	g, err := a.Tenants.Create(t.Context(), "Closed", "")
	if err != nil {
		t.Fatal(err)
	}
	a.Exec(`UPDATE tenants SET status = 'suspended' WHERE tenant_id = ?`, g.TenantID)
	return string(g.RawKey)
}
