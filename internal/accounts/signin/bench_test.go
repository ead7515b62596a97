package signin_test

import (
	"context"
	"log/slog"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/accounts/signin"
	"agentd/internal/accounts/signin/signinsql"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/mail"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
	"agentd/internal/wire/oidcclient"
	"agentd/internal/wire/oidcclient/oidctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const public = "https://agentd.example.com"

// bench is the slice on a database, with its collaborators.
type bench struct {
	*signin.Service
	t      *testing.T
	db     *sqldb.DB
	clock  *clock.Fake
	people *identity.Service
	queue  *worksql.Queue
	post   *post
	log    *recorder
	box    *secret.Box
	op     *oidctest.Provider // nil before provider is called
}

// post keeps letters.
type post struct {
	mu      sync.Mutex
	none    bool
	letters []mail.Message
}

func (p *post) Configured() bool { return !p.none }

func (p *post) Send(tx txn.Tx, _ string, m mail.Message) error {
	tx.AfterCommit(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.letters = append(p.letters, m)
	})
	return nil
}

// recorder keeps what was audited.
type recorder struct {
	mu      sync.Mutex
	entries []string // action, user, details
}

func (r *recorder) Record(tx txn.Tx, who authz.Caller, e audit.Entry) error {
	tx.AfterCommit(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.entries = append(r.entries, e.Action+" "+who.UserID+" "+string(e.Details))
	})
	return nil
}

// has counts the entries that begin so.
func (r *recorder) has(prefix string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.entries {
		if strings.HasPrefix(e, prefix) {
			n++
		}
	}
	return n
}

// each runs a test on both databases.
func each(t *testing.T, test func(b *bench), adjust ...func(b *bench, c *signin.Config)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) { test(newBench(t, db, adjust...)) })
}

func newBench(t *testing.T, db *sqldb.DB, adjust ...func(b *bench, c *signin.Config)) *bench {
	t.Helper()
	b := &bench{t: t, db: db, clock: clock.NewFake(), post: &post{}, log: &recorder{}}
	b.people = identity.New(identity.Config{DB: db, Store: identitysql.New(db), Clock: b.clock, Log: slog.New(slog.DiscardHandler)})
	b.queue = worksql.New(db, b.clock, func(string) {})
	box, err := secret.NewBox([]byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	b.box = box
	members := identity.NewPeople(b.people, identity.PeopleDeps{Store: identitysql.NewPeople(db)})
	cfg := signin.Config{
		Writer: db, Store: signinsql.New(db), Members: identitysql.New(db), Sessions: b.people.Sessions, Outbox: b.post, Queue: b.queue,
		Box: box, RecoveryKey: box.Derive("signin/recovery"), CodeKey: box.Derive("signin/codes"), Clock: b.clock, Log: slog.New(slog.DiscardHandler), Audit: b.log, Public: func() string { return public },
		SignUp: b.people.Tenants.SignUp, Prove: members.Prove,
	}
	for _, f := range adjust {
		f(b, &cfg)
	}
	b.Service = signin.New(cfg)
	b.people.Sessions.SetFactors(b.Service)
	return b
}

// signup switches signing up on.
func signup(_ *bench, c *signin.Config) { c.Signup = func() bool { return true } }

// provider configures one provider.
func provider(b *bench, c *signin.Config) {
	b.op = oidctest.New(b.t)
	b.op.Now = b.clock.Now
	b.op.User = oidctest.Claims{"email": "ann@example.com", "email_verified": true, "name": "Ann"}
	client := oidcclient.New(b.clock)
	b.t.Cleanup(client.Close)
	for _, id := range []string{"corp", "other"} {
		p := signin.ProviderConfig{ID: id, Name: "Corp", Issuer: b.op.URL, ClientID: oidctest.ClientID,
			ClientSecret: secret.New(oidctest.ClientSecret), Scopes: []string{"openid", "email"}}
		c.Providers = append(c.Providers, signin.ConfiguredProvider{ProviderConfig: p, Port: client.Provider(p)})
	}
}

type object = map[string]any

// answer is what an operation gave.
type answer struct {
	json     object
	status   int
	cookie   *route.Cookie
	location string
}

var anybody = authz.Caller{Address: "192.0.2.1", RequestID: "request-1"}

// call runs an operation. in holds parameters by their names, and the body
// under "body".
func (b *bench) call(who authz.Caller, method, path string, in object) (answer, error) {
	b.t.Helper()
	for _, r := range b.Routes() {
		if r.Method != method || r.Path != path {
			continue
		}
		if err := who.Check(r.Role, r.Scopes...); err != nil {
			return answer{}, err
		}
		v := reflect.New(r.In)
		for i := range r.In.NumField() {
			f := r.In.Field(i)
			for _, tag := range []string{"path", "query", "cookie"} {
				if value, ok := in[f.Tag.Get(tag)]; ok {
					v.Elem().Field(i).Set(reflect.ValueOf(value))
				}
			}
			if f.Name == "Body" && in["body"] != nil {
				text, err := json.Marshal(in["body"])
				if err != nil {
					b.t.Fatal(err)
				}
				if err := json.Unmarshal(text, v.Elem().Field(i).Addr().Interface()); err != nil {
					b.t.Fatal(err)
				}
			}
		}
		out, err := r.Call(b.t.Context(), who, v.Interface())
		if err != nil {
			return answer{}, err
		}
		return b.read(r, out), nil
	}
	b.t.Fatalf("there is no %s %s", method, path)
	return answer{}, nil
}

func (b *bench) read(r route.Route, out any) answer {
	b.t.Helper()
	a := answer{status: r.Status}
	var text []byte
	if reply, ok := out.(*route.Reply); ok {
		a.cookie, a.location, text = reply.Cookie, reply.Location, reply.JSON
		if reply.Status != 0 {
			a.status = reply.Status
		}
	} else {
		var err error
		if text, err = json.Marshal(out); err != nil {
			b.t.Fatal(err)
		}
	}
	if text != nil {
		if err := json.Unmarshal(text, &a.json); err != nil {
			b.t.Fatal(err)
		}
	}
	return a
}

// must is call that has to succeed.
func (b *bench) must(who authz.Caller, method, path string, in object) answer {
	b.t.Helper()
	a, err := b.call(who, method, path, in)
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// refused is call that has to fail.
func (b *bench) refused(kind fault.Kind, code string, who authz.Caller, method, path string, in object) *fault.Error {
	b.t.Helper()
	a, err := b.call(who, method, path, in)
	f := fault.From(err)
	if f == nil || f.Kind != kind || f.Code != code {
		b.t.Errorf("%s %s: %+v, %v; want %s", method, path, a, err, code)
		return &fault.Error{}
	}
	return f
}

// member creates a tenant and returns its owner as a caller by key.
func (b *bench) member(tenant, email string) authz.Caller {
	b.t.Helper()
	g, err := b.people.Tenants.Create(b.t.Context(), tenant, email)
	if err != nil {
		b.t.Fatal(err)
	}
	return authz.Caller{TenantID: g.TenantID, UserID: g.UserID, KeyID: g.KeyID, Role: authz.Owner, Scopes: []authz.Scope{"*"},
		Method: "api_key"}
}

// work does what is due.
func (b *bench) work() {
	b.t.Helper()
	for {
		held, err := b.queue.Claim(b.t.Context(), signin.WorkKind, "n1", 10, time.Minute)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, l := range held {
			if err := b.Handle(b.t.Context(), l); err != nil {
				b.t.Fatal(err)
			}
		}
		if len(held) == 0 {
			return
		}
	}
}

// letter takes the only letter there is.
func (b *bench) letter(to string) mail.Message {
	b.t.Helper()
	b.post.mu.Lock()
	defer b.post.mu.Unlock()
	if len(b.post.letters) != 1 || b.post.letters[0].To != to {
		b.t.Fatalf("letters %v", b.post.letters)
	}
	l := b.post.letters[0]
	b.post.letters = nil
	return l
}

func (b *bench) noLetter() {
	b.t.Helper()
	b.post.mu.Lock()
	defer b.post.mu.Unlock()
	if len(b.post.letters) > 0 {
		b.t.Errorf("letters %v", b.post.letters)
	}
}

// code asks for a code and reads the letter.
func (b *bench) code(email string) string {
	b.t.Helper()
	b.must(anybody, "POST", "/api/v1/auth/request-code", object{"body": object{"email": email}})
	b.work()
	return codeOf(b.t, b.letter(email))
}

func codeOf(t *testing.T, l mail.Message) string {
	t.Helper()
	for line := range strings.Lines(l.Text) {
		if code := strings.ReplaceAll(strings.TrimSpace(line), " ", ""); len(code) == 6 && strings.Trim(code, "0123456789") == "" {
			return code
		}
	}
	t.Fatalf("no code in %s", l.Text)
	return ""
}

// signIn signs in with a mailed code.
func (b *bench) signIn(email string) (answer, authz.Caller) {
	b.t.Helper()
	b.clock.Advance(11 * time.Minute) // past every cool-down
	a := b.must(anybody, "POST", "/api/v1/auth/verify-code",
		object{"body": object{"email": email, "code": b.code(email), "device_label": "a test"}})
	return a, b.caller(a)
}

// caller is the browser with the cookie of an answer.
func (b *bench) caller(a answer) authz.Caller {
	b.t.Helper()
	if a.cookie == nil || a.cookie.Name != "svc_session" {
		b.t.Fatalf("no session: %+v", a)
	}
	who, _, err := b.people.AuthenticateSession(b.t.Context(), a.cookie.Value)
	if err != nil {
		b.t.Fatal(err)
	}
	return who
}

// other is another code than this.
func other(code string) string {
	if code == "000000" {
		return "000001"
	}
	return "000000"
}

// sql changes the database behind the slice's back.
func (b *bench) sql(statement string, args ...any) {
	b.t.Helper()
	err := b.db.Write(context.Background(), func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(statement, args...)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) count(table string) (n int) {
	b.t.Helper()
	if err := b.db.QueryRow(b.t.Context(), `SELECT COUNT(*) FROM `+table).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

func query(t *testing.T, address string) url.Values {
	t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return at.Query()
}
