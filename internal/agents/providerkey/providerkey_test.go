package providerkey_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/agents/providerkey"
	"agentd/internal/agents/providerkey/providerkeysql"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/model"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/wire/outbound"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a node with the slice, over a real database, with endpoints that are
// made up.
type rig struct {
	*providerkey.Service
	t       *testing.T
	db      *sqldb.DB
	clock   *clock.Fake
	store   *counting
	who     authz.Caller
	elapsed atomic.Int64
	deaf    bool // it is not notified of changes

	mu     sync.Mutex
	log    []string
	asked  []model.Target
	refuse error
}

// counting counts how often the database is read.
type counting struct {
	providerkey.Store
	reads atomic.Int64
}

func (c *counting) List(ctx context.Context, tenant string) ([]providerkey.Row, error) {
	c.reads.Add(1)
	return c.Store.List(ctx, tenant)
}

// Record implements audit.Recorder.
func (r *rig) Record(_ txn.Tx, _ authz.Caller, e audit.Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf("%s %s %s %s", e.Action, e.TargetType, e.TargetID, e.Details))
	return nil
}

// ListModels implements model.Lister.
func (r *rig) ListModels(_ context.Context, t model.Target) ([]model.Listed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, t)
	return []model.Listed{{ID: "m"}}, r.refuse
}

const platform = `{"providers": [
	{"name": "default", "base_url": "http://10.0.0.1:8000/v1", "api_key": "operators-key"},
	{"name": "acme", "display_name": "Acme Models", "base_url": "https://acme.internal/v1", "api_key": "operators-key"},
	{"name": "mistral", "base_url": "https://api.mistral.ai/v1"}
]}`

func newRig(t *testing.T, db *sqldb.DB, file string, tenant string) *rig {
	t.Helper()
	providers, err := model.ParseProviders([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	catalogue, err := model.NewCatalogue(providers, "")
	if err != nil {
		t.Fatal(err)
	}
	box, err := secret.NewBox(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, db: db, clock: clock.NewFake(), store: &counting{Store: providerkeysql.New(db)}, who: authz.Caller{TenantID: tenant, UserID: ident.New()}}
	r.Service = providerkey.New(providerkey.Deps{
		Store: r.store, Writer: db, Clock: r.clock, Box: box, Audit: r, Catalogue: catalogue, Lister: r, CheckURL: outbound.CheckURL,
		OnChange: func(tenant string) {
			if !r.deaf {
				r.Invalidate(tenant)
			}
		},
		Elapsed: func() time.Duration { return time.Duration(r.elapsed.Load()) },
	})
	return r
}

func each(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) { test(t, newRig(t, db, platform, ident.New())) })
}

// do calls an operation as the edge does.
func (r *rig) do(id, provider, body string) (any, error) {
	r.t.Helper()
	routes := r.Routes()
	one := routes[slices.IndexFunc(routes, func(one route.Route) bool { return one.ID == id })]
	in := reflect.New(one.In)
	for f := range one.In.Fields() {
		field := in.Elem().FieldByIndex(f.Index)
		if f.Name != "Body" {
			field.SetString(provider)
		} else if err := schema.For(f.Type).DecodeInto([]byte(body), field.Addr().Interface(), false); err != nil {
			return nil, err
		}
	}
	return one.Call(r.t.Context(), r.who, in.Interface())
}

func (r *rig) put(provider, body string) providerkey.Stored {
	r.t.Helper()
	out, err := r.do("setLlmCredential", provider, body)
	if err != nil {
		r.t.Fatal(err)
	}
	return out.(providerkey.Stored)
}

func (r *rig) kept(name string) *model.Credential {
	r.t.Helper()
	c, err := r.Kept(r.t.Context(), r.who.TenantID, name)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// providers lists those that are configured, as JSON.
func (r *rig) configured() (all []string) {
	r.t.Helper()
	out, err := r.do("listLlmCredentialProviders", "", "")
	if err != nil {
		r.t.Fatal(err)
	}
	text, err := json.Marshal(out)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, secret := range []string{"operators-key", "10.0.0.1", "acme.internal", "sk-"} {
		if strings.Contains(string(text), secret) {
			r.t.Errorf("the list shows %s: %s", secret, text)
		}
	}
	var list struct {
		Providers []providerkey.Provider `json:"providers"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		r.t.Fatal(err)
	}
	for _, p := range list.Providers {
		if p.Configured {
			all = append(all, fmt.Sprintf("%s at %q shared %t stale %t", p.ID, p.DefaultEndpoint, *p.Shared, p.Stale))
		}
	}
	return all
}

const key1, key2 = `"api_key": "sk-0123456789"`, `"api_key": "sk-abcdefghij"`

func TestStoring(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		first := r.put("openai", `{`+key1+`}`)
		if diff := cmp.Diff(providerkey.Stored{ProviderID: "openai", Configured: true, Shared: true, UpdatedAt: r.clock.Now(), Wire: "openai_chat"}, first); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if c := r.kept("openai"); c.Endpoint != "https://api.openai.com/v1" || c.Origin != model.OriginPublic || !c.Shared || c.Key.Reveal() != "sk-0123456789" {
			t.Errorf("kept %+v", c)
		}
		r.put("openai", `{`+key1+`, "shared": false}`)
		r.clock.Advance(time.Minute)
		if again := r.put("openai", `{`+key2+`, "shared": null}`); again.Shared || !again.UpdatedAt.Equal(r.clock.Now()) {
			t.Errorf("the flag is not kept: %+v", again)
		}
		if c := r.kept("openai"); c.Key.Reveal() != "sk-abcdefghij" || c.Shared {
			t.Errorf("kept %+v", c)
		}
		r.put("acme", `{`+key1+`}`)
		r.put("mine", `{`+key1+`, "endpoint_url": "https://Models.example:443/v1/chat/completions"}`)
		r.put("mine", `{`+key2+`}`) // the endpoint stays
		want := []string{
			`acme at "" shared true stale false`, `openai at "https://api.openai.com/v1" shared false stale false`,
			`mine at "https://models.example/v1" shared true stale false`,
		}
		if diff := cmp.Diff(want, r.configured()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if c := r.kept("acme"); c.Endpoint != "https://acme.internal/v1" || c.Origin != model.OriginPlatform {
			t.Errorf("kept %+v", c)
		}
		if _, err := r.do("deleteLlmCredential", "openai", ""); err != nil {
			t.Error(err)
		}
		if c := r.kept("openai"); c != nil {
			t.Errorf("kept after it was deleted: %+v", c)
		}
		_, err := r.do("deleteLlmCredential", "openai", "")
		is(t, err, fault.NotFound, "NOT_FOUND")
		log := strings.Join(r.log, "\n")
		wantLog := []string{
			`llm_credentials.set llm_credential openai {"shared":true,"endpoint":"https://api.openai.com/v1"}`,
			`llm_credentials.set llm_credential acme {"shared":true}`,
			`llm_credentials.set llm_credential mine {"shared":true,"endpoint":"https://models.example/v1"}`,
			`llm_credentials.deleted llm_credential openai `,
		}
		for _, entry := range wantLog {
			if !strings.Contains(log, entry) {
				t.Errorf("the log lacks %q:\n%s", entry, log)
			}
		}
		if strings.Contains(log, "sk-") || strings.Contains(log, "acme.internal") {
			t.Errorf("the log has too much: %s", log)
		}
	})
}

// Limits belong to the key, stay when they are left out, and reach its calls (rule
// D22-limits-keys).
func TestLimitsOfAKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		r.put("openai", `{`+key1+`, "max_concurrency": 8, "tokens_per_minute": 90000}`)
		r.put("openai", `{`+key2+`}`)
		if got, want := r.kept("openai").Limits, (model.Limits{MaxConcurrency: 8, TokensPerMinute: 90_000}); got != want {
			t.Errorf("kept %+v, want %+v", got, want)
		}
		to, err := model.Resolver{Catalogue: r.Catalogue, Credentials: r}.Resolve(t.Context(), r.who.TenantID, model.Spec{ModelRef: "openai/gpt"})
		if err != nil || to.Limits.MaxConcurrency != 8 || to.TenantID != r.who.TenantID {
			t.Errorf("the target has %+v, %v", to.Limits, err)
		}
		if again := r.put("openai", `{`+key2+`, "max_concurrency": 0}`); again.MaxConcurrency != 0 || again.TokensPerMinute != 90_000 {
			t.Errorf("stored %+v", again)
		}
		for _, body := range []string{`"max_concurrency": -1`, `"max_concurrency": 100001`, `"tokens_per_minute": -5`, `"tokens_per_minute": 1000000001`} {
			if _, err := r.do("setLlmCredential", "openai", `{`+key1+`, `+body+`}`); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s: %v", body, err)
			}
		}
	})
}

func TestStoringRefuses(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.SQLite)
	r := newRig(t, db, platform, ident.New())
	at := func(url string) string { return `{` + key1 + `, "endpoint_url": "` + url + `"}` }
	for name, tt := range map[string]struct {
		provider, body string
		kind           fault.Kind
		code, says     string
	}{
		"unknown":          {"nobody", `{` + key1 + `}`, fault.Malformed, "unknown_provider", "nobody"},
		"short":            {"openai", `{"api_key": "123456789"}`, fault.Malformed, "invalid_api_key", "10 to 500"},
		"long":             {"openai", `{"api_key": "` + strings.Repeat("k", 501) + `"}`, fault.Malformed, "invalid_api_key", "10 to 500"},
		"control":          {"openai", `{"api_key": "0123456789\r\nX-Evil: 1"}`, fault.Malformed, "invalid_api_key", "control"},
		"short-and-spaced": {"openai", `{"api_key": "a b"}`, fault.Malformed, "invalid_api_key", "500 characters, and it must not contain spaces"},
		"not-ascii":        {"openai", `{"api_key": "0123456789ü"}`, fault.Malformed, "invalid_api_key", "ASCII"},
		"no-key":           {"openai", `{}`, fault.Invalid, "VALIDATION_ERROR", "api_key"},
		"number":           {"openai", `{"api_key": 1234567890}`, fault.Invalid, "VALIDATION_ERROR", "api_key"},
		"public-elsewhere": {"openai", at("https://evil.example/v1"), fault.Invalid, "VALIDATION_ERROR", "another name"},
		"public-in-place":  {"openai", at("https://api.openai.com/v1"), fault.Invalid, "VALIDATION_ERROR", "another name"},
		// Whether it is right says nothing: where the operator's is can't be guessed.
		"operators":       {"acme", at("https://acme.internal/v1"), fault.Invalid, "VALIDATION_ERROR", "another name"},
		"operators-wrong": {"acme", at("https://other.internal/v1"), fault.Invalid, "VALIDATION_ERROR", "another name"},
		"user":            {"mine", at("https://u:p@host.example/v1"), fault.Invalid, "VALIDATION_ERROR", "user name"},
		"query":           {"mine", at("https://host.example/v1?a=b"), fault.Invalid, "VALIDATION_ERROR", "query"},
		"dots":            {"mine", at("https://host.example/a/../v1"), fault.Invalid, "VALIDATION_ERROR", "dot segments"},
		"scheme":          {"mine", at("file:///etc/passwd"), fault.Invalid, "VALIDATION_ERROR", "https://"},
		"number-host":     {"mine", at("http://2130706433/v1"), fault.Invalid, "VALIDATION_ERROR", "number"},
		"no-url":          {"mine", at("models"), fault.Invalid, "VALIDATION_ERROR", "https://"},
		"reserved":        {"builtin", at("https://host.example/v1"), fault.Malformed, "unknown_provider", "not a valid name"},
		"reserved-agent":  {"agent", at("https://host.example/v1"), fault.Malformed, "unknown_provider", "not a valid name"},
		"upper-case":      {"Mine", at("https://host.example/v1"), fault.Malformed, "unknown_provider", "not a valid name"},
		"slash":           {"a/b", at("https://host.example/v1"), fault.Malformed, "unknown_provider", "not a valid name"},
		"long-name":       {strings.Repeat("a", 65), at("https://host.example/v1"), fault.Malformed, "unknown_provider", "not a valid name"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.do("setLlmCredential", tt.provider, tt.body)
			f := is(t, err, tt.kind, tt.code)
			text := fmt.Sprint(f.Detail, f.Fields)
			if !strings.Contains(text, tt.says) || strings.Contains(text, "0123456789") {
				t.Errorf("says %s", text)
			}
		})
	}
	if got := r.configured(); got != nil {
		t.Errorf("stored all the same: %v", got)
	}
}

func TestKeysAreSealedWhereTheyBelong(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		r.put("mine", `{`+key1+`, "endpoint_url": "https://mine.example/v1"}`)
		rows, err := r.store.List(t.Context(), r.who.TenantID)
		if err != nil || len(rows) != 1 {
			t.Fatalf("%v, %v", rows, err)
		}
		if text := fmt.Sprintf("%s %v", rows[0].Sealed, rows[0]); strings.Contains(text, "0123456789") {
			t.Errorf("stored in the clear: %s", text)
		}
		if text := fmt.Sprintf("%+v", *r.kept("mine")); strings.Contains(text, "0123456789") {
			t.Errorf("printed: %s", text)
		}
		// A row that somebody moved opens nothing.
		other := ident.New()
		for name, spoil := range map[string]func(*providerkey.Row){
			"endpoint": func(row *providerkey.Row) { row.Endpoint = "https://evil.example/v1" },
			"provider": func(row *providerkey.Row) { row.ProviderID = "yours" },
			"tenant":   func(row *providerkey.Row) { row.TenantID = other },
			"bytes":    func(row *providerkey.Row) { row.Sealed = append(slices.Clone(row.Sealed[:20]), row.Sealed[21:]...) },
		} {
			row := rows[0]
			spoil(&row)
			if err := r.db.Write(t.Context(), func(tx txn.Tx) error { return r.store.PutTx(tx, &row) }); err != nil {
				t.Fatal(err)
			}
			r.Invalidate(row.TenantID)
			if c, err := r.Kept(t.Context(), row.TenantID, row.ProviderID); c != nil || err != nil {
				t.Errorf("%s: %+v, %v", name, c, err)
			}
		}
	})
}

func TestCredentialsAreATenants(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		r.put("mine", `{`+key1+`, "endpoint_url": "https://mine.example/v1"}`)
		other := newRig(t, r.db, platform, ident.New())
		if c := other.kept("mine"); c != nil || other.configured() != nil {
			t.Errorf("another company has %+v", c)
		}
		_, err := other.do("deleteLlmCredential", "mine", "")
		is(t, err, fault.NotFound, "NOT_FOUND")
		_, err = other.do("testLlmCredential", "mine", "")
		is(t, err, fault.Malformed, "unknown_provider")
		other.put("mine", `{`+key2+`, "endpoint_url": "https://theirs.example/v1"}`)
		if c := r.kept("mine"); c.Endpoint != "https://mine.example/v1" || c.Key.Reveal() != "sk-0123456789" {
			t.Errorf("changed by another company: %+v", c)
		}
	})
}

// Keys are in memory: a call of a model reads no database, what this node
// changes holds at once, and what another one does a few seconds later.
func TestKeysAreInMemory(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.SQLite)
	r := newRig(t, db, platform, ident.New())
	r.put("openai", `{`+key1+`}`)
	for range 100 {
		r.kept("openai")
		r.kept("nobody")
	}
	if n := r.store.reads.Load(); n != 1 {
		t.Errorf("the database was read %d times", n)
	}
	elsewhere := newRig(t, db, platform, r.who.TenantID)
	for range 10 {
		if elsewhere.kept("openai") == nil {
			t.Fatal("another node sees no key")
		}
	}
	r.put("openai", `{`+key2+`}`)
	if got := r.kept("openai").Key.Reveal(); got != "sk-abcdefghij" {
		t.Errorf("this node still has %s", got)
	}
	if got := elsewhere.kept("openai").Key.Reveal(); got != "sk-0123456789" {
		t.Errorf("another node, which was not told, has %s already", got)
	}
	elsewhere.elapsed.Add(int64(6 * time.Second))
	if got := elsewhere.kept("openai").Key.Reveal(); got != "sk-abcdefghij" {
		t.Errorf("another node has %s after six seconds", got)
	}
	if _, err := r.do("deleteLlmCredential", "openai", ""); err != nil || r.kept("openai") != nil {
		t.Errorf("after deletion: %v, %v", r.kept("openai"), err)
	}
	elsewhere.Invalidate(r.who.TenantID)
	if elsewhere.kept("openai") != nil {
		t.Error("another node, which was told, has the key still")
	}
}

func TestKeysThatAreStale(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.SQLite)
	r := newRig(t, db, platform, ident.New())
	r.put("acme", `{`+key1+`}`)
	moved := newRig(t, db, strings.ReplaceAll(platform, "acme.internal", "acme.elsewhere"), r.who.TenantID)
	if diff := cmp.Diff([]string{`acme at "" shared true stale true`}, moved.configured()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	out, err := moved.do("testLlmCredential", "acme", "")
	if got, _ := out.(providerkey.Tested); err != nil || got.Success || !strings.Contains(got.Message, "store it again") || moved.asked != nil {
		t.Errorf("%+v, %v, asked %v", out, err, moved.asked)
	}
	moved.put("acme", `{`+key2+`}`)
	if diff := cmp.Diff([]string{`acme at "" shared true stale false`}, moved.configured()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTesting(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.SQLite)
	r := newRig(t, db, platform, ident.New())
	test := func(provider string) providerkey.Tested {
		t.Helper()
		out, err := r.do("testLlmCredential", provider, "")
		if err != nil {
			t.Fatal(err)
		}
		return out.(providerkey.Tested)
	}
	if got := test("openai"); got.Success || !strings.Contains(got.Message, "No key") || r.asked != nil {
		t.Errorf("without a key: %+v", got)
	}
	_, err := r.do("testLlmCredential", "nobody", "")
	is(t, err, fault.Malformed, "unknown_provider")
	r.put("openai", `{`+key1+`, "shared": false}`)
	r.put("acme", `{`+key2+`}`)
	if got := test("openai"); !got.Success || got.Message != "" {
		t.Errorf("%+v", got)
	}
	if got := test("acme"); !got.Success {
		t.Errorf("%+v", got)
	}
	want := []model.Target{
		{Provider: "openai", BaseURL: "https://api.openai.com/v1", APIKey: secret.New("sk-0123456789"), Guarded: true, TenantID: r.who.TenantID, OwnKey: true},
		{Provider: "acme", BaseURL: "https://acme.internal/v1", APIKey: secret.New("sk-abcdefghij"), OwnKey: true},
	}
	if diff := cmp.Diff(want, r.asked, cmp.Comparer(func(a, b secret.String) bool { return a.Reveal() == b.Reveal() })); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	r.refuse = &model.Error{Code: "provider_auth_failed", Detail: "The key is refused."}
	if got := test("openai"); got.Success || got.Message != "The key is refused." {
		t.Errorf("%+v", got)
	}
	r.refuse = context.Canceled
	if _, err := r.do("testLlmCredential", "openai", ""); err == nil {
		t.Error("a test that was given up has a result")
	}
}

func TestOnlySoManyKeys(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		if err := r.db.Write(t.Context(), func(tx txn.Tx) error {
			for i := range 100 {
				row := providerkey.Row{TenantID: r.who.TenantID, ProviderID: fmt.Sprintf("p%d", i), Endpoint: "https://a.example", Origin: model.OriginOwn, Sealed: []byte{}}
				if err := r.store.PutTx(tx, &row); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		_, err := r.do("setLlmCredential", "openai", `{`+key1+`}`)
		is(t, err, fault.Invalid, "limit_reached")
		r.put("p7", `{`+key1+`}`) // one that is there may be changed
		if r.kept("p7") == nil || r.kept("p8") != nil {
			t.Errorf("kept %v and %v", r.kept("p7"), r.kept("p8"))
		}
	})
}

func is(t *testing.T, err error, kind fault.Kind, code string) *fault.Error {
	t.Helper()
	f := fault.From(err)
	if f == nil || f.Kind != kind || f.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	return f
}

func BenchmarkKept(b *testing.B) {
	box, err := secret.NewBox(make([]byte, 32))
	if err != nil {
		b.Fatal(err)
	}
	db := sqldbtest.Open(b, sqldbtest.SQLite)
	catalogue, err := model.NewCatalogue(nil, "")
	if err != nil {
		b.Fatal(err)
	}
	s := providerkey.New(providerkey.Deps{Store: providerkeysql.New(db), Writer: db, Clock: clock.System{}, Box: box, Catalogue: catalogue})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Kept(b.Context(), "t1", "openai"); err != nil {
			b.Fatal(err)
		}
	}
}

// A key of an own provider has a wire, which is that of the address at first, and what the
// wire needs beside it; both stay when they are left out, and reach its calls (rule
// D23-wire-of-a-key).
func TestWireOfAKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		resolve := func(ref string) model.Target {
			t.Helper()
			to, err := model.Resolver{Catalogue: r.Catalogue, Credentials: r}.Resolve(t.Context(), r.who.TenantID, model.Spec{ModelRef: ref})
			if err != nil {
				t.Fatal(err)
			}
			return to
		}
		if out := r.put("anthropic", `{`+key1+`}`); out.Wire != "anthropic" || resolve("anthropic/claude").Wire != model.WireAnthropic {
			t.Errorf("a public provider has the wire %q", out.Wire)
		}
		azure := `"endpoint_url": "https://ours.openai.azure.com", "access": {"api_version": "2025-04-01-preview", "entra": {"tenant_id": "t-1", "client_id": "c-1"}}`
		if out := r.put("cloud", `{`+key1+`, `+azure+`}`); out.Wire != "azure_openai" {
			t.Errorf("the address has the wire %q", out.Wire)
		}
		r.put("cloud", `{`+key2+`}`)
		to := resolve("cloud/gpt")
		if e := to.Access.Entra; to.Wire != model.WireAzure || !to.APIKey.Empty() || to.Access.APIVersion != "2025-04-01-preview" ||
			e == nil || e.TenantID != "t-1" || e.ClientID != "c-1" || e.ClientSecret.Reveal() != "sk-abcdefghij" {
			t.Errorf("the target is %+v", to)
		}
		r.put("mine", `{`+key1+`, "endpoint_url": "https://mine.example", "wire": "anthropic"}`)
		if got := resolve("mine/m"); got.Wire != model.WireAnthropic || got.APIKey.Reveal() != "sk-0123456789" {
			t.Errorf("the target is %+v", got)
		}
		bedrock := `"endpoint_url": "https://bedrock-runtime.eu-west-1.amazonaws.com", "access": {"region": "eu-west-3", "aws": {"access_key_id": "AKIA1"}}`
		if out := r.put("aws", `{`+key1+`, `+bedrock+`}`); out.Wire != "bedrock" {
			t.Errorf("the address has the wire %q", out.Wire)
		}
		if to := resolve("aws/eu.anthropic.claude"); to.Wire != model.WireBedrock || !to.APIKey.Empty() || to.Access.Region != "eu-west-3" ||
			to.Access.AWS == nil || to.Access.AWS.AccessKeyID != "AKIA1" || to.Access.AWS.SecretAccessKey.Reveal() != "sk-0123456789" {
			t.Errorf("the target is %+v", to)
		}
		const role = `"role_arn": "arn:aws:iam::123456789012:role/models", "external_id": "ours"`
		r.put("aws", `{`+key1+`, `+strings.Replace(bedrock, `"AKIA1"`, `"AKIA1", `+role, 1)+`}`)
		if as := resolve("aws/m").Access.AWS; as.RoleARN != "arn:aws:iam::123456789012:role/models" || as.ExternalID != "ours" || as.From != "" {
			t.Errorf("the identity is %+v", as)
		}
		for body, field := range map[string]string{
			`"wire": "bedrock", "access": {"aws": {"access_key_id": "A", "role_arn": "arn:aws:iam::1:user/a"}}`: "access",
			`"wire": "bedrock", "access": {"aws": {"access_key_id": "A", "external_id": "ours"}}`:               "access",
			`"wire": "bedrock", "access": {"aws": {"from": "machine"}}`:                                         "access",
			`"wire": "smoke"`:                                          "wire",
			`"wire": "bedrock", "access": {"aws": {}}`:                 "access",
			`"wire": "anthropic", "access": {"region": "eu-west-1"}`:   "access",
			`"wire": "anthropic", "access": {"api_version": "1"}`:      "access",
			`"wire": "azure_openai", "access": {"entra": {}}`:          "access",
			`"wire": "azure_openai", "access": {"api_version": "a/b"}`: "access",
		} {
			_, err := r.do("setLlmCredential", "mine", `{`+key1+`, `+body+`}`)
			if f := fault.From(err); !fault.Is(err, fault.Invalid) || len(f.Fields) == 0 || !strings.HasPrefix(f.Fields[0].Field, field) {
				t.Errorf("%s: %v", body, err)
			}
		}
		if _, err := r.do("setLlmCredential", "openai", `{`+key1+`, "wire": "anthropic"}`); !fault.Is(err, fault.Invalid) {
			t.Errorf("a public provider takes another wire: %v", err)
		}
	})
}
