package model_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
)

// kept are the credentials of the tenant t1 in the tests of this package.
var kept = map[string]*model.Credential{
	"mine":    {Name: "mine", Endpoint: "https://mine.example/v1", Origin: model.OriginOwn, Shared: true, Key: secret.New("key-mine")},
	"private": {Name: "private", Endpoint: "https://private.example/v1", Origin: model.OriginOwn, Key: secret.New("key-private")},
	"openai":  {Name: "openai", Endpoint: "https://api.openai.com/v1", Origin: model.OriginPublic, Shared: true, Key: secret.New("key-openai")},
	"acme":    {Name: "acme", Endpoint: "https://acme.example/v1", Origin: model.OriginPlatform, Shared: true, Key: secret.New("key-own-acme")},
	"moved":   {Name: "moved", Endpoint: "https://before.example/v1", Origin: model.OriginPlatform, Shared: true, Key: secret.New("key-own-moved")},
	"quiet":   {Name: "quiet", Endpoint: "https://quiet.example/v1", Origin: model.OriginPlatform, Key: secret.New("key-own-quiet")},
	"later":   {Name: "later", Endpoint: "https://tenants-later.example/v1", Origin: model.OriginOwn, Shared: true, Key: secret.New("key-own-later")},
	"gone":    {Name: "gone", Endpoint: "https://gone.example/v1", Origin: model.OriginPlatform, Shared: true, Key: secret.New("key-own-gone")},
	"free":    {Name: "free", Endpoint: "https://free.example/v1", Origin: model.OriginOwn, Shared: true, Key: secret.New("key-free")},
	"twin":    {Name: "twin", Endpoint: "https://acme.example/v1", Origin: model.OriginOwn, Shared: true, Key: secret.New("key-twin")},
}

const keysFile = `{"providers": [
	{"name": "default", "base_url": "http://10.0.0.1:8000/v1/", "api_key": "key-d", "models": [{"id": "small"}, {"id": "free/large"}]},
	{"name": "acme", "base_url": "https://ACME.example:443/v1", "api_key": "key-a", "models": [{"id": "x"}]},
	{"name": "moved", "base_url": "https://after.example/v1", "api_key": "key-m"},
	{"name": "quiet", "base_url": "https://quiet.example/v1", "api_key": "key-q"},
	{"name": "later", "base_url": "https://operators-later.example/v1", "api_key": "key-l"}
]}`

func TestTenantsKeys(t *testing.T) {
	t.Parallel()
	key := secret.New
	tests := map[string]struct {
		spec model.Spec
		want model.Target
		err  string
	}{
		"own-provider":    {spec: model.Spec{ModelRef: "mine/org/m"}, want: model.Target{Provider: "mine", Model: "org/m", BaseURL: "https://mine.example/v1", APIKey: key("key-mine"), Guarded: true, TenantID: "t1", OwnKey: true}},
		"public-provider": {spec: model.Spec{ModelRef: "openai/gpt"}, want: model.Target{Provider: "openai", Model: "gpt", BaseURL: "https://api.openai.com/v1", APIKey: key("key-openai"), Guarded: true, TenantID: "t1", OwnKey: true}},
		// The operator's endpoint, which may be private, with the tenant's key.
		"in-place-of-the-operators": {spec: model.Spec{ModelRef: "acme/x"}, want: model.Target{Provider: "acme", Model: "x", BaseURL: "https://ACME.example:443/v1", APIKey: key("key-own-acme"), OwnKey: true}},
		"endpoint-moved":            {spec: model.Spec{ModelRef: "moved/x"}, want: model.Target{Provider: "moved", Model: "x", BaseURL: "https://after.example/v1", APIKey: key("key-m")}},
		"not-shared":                {spec: model.Spec{ModelRef: "quiet/x"}, want: model.Target{Provider: "quiet", Model: "x", BaseURL: "https://quiet.example/v1", APIKey: key("key-q")}},
		"not-shared-named":          {spec: model.Spec{ModelRef: "quiet/x", APIKeyRef: "quiet"}, want: model.Target{Provider: "quiet", Model: "x", BaseURL: "https://quiet.example/v1", APIKey: key("key-own-quiet"), OwnKey: true}},
		"own-not-shared":            {spec: model.Spec{ModelRef: "private/x"}, want: model.Target{Provider: "default", Model: "private/x", BaseURL: "http://10.0.0.1:8000/v1", APIKey: key("key-d")}},
		"own-not-shared-named":      {spec: model.Spec{ModelRef: "x", APIKeyRef: "private"}, want: model.Target{Provider: "private", Model: "x", BaseURL: "https://private.example/v1", APIKey: key("key-private"), Guarded: true, TenantID: "t1", OwnKey: true}},
		// What the tenant named first stays where it was.
		"operator-takes-the-name": {spec: model.Spec{ModelRef: "later/x"}, want: model.Target{Provider: "later", Model: "x", BaseURL: "https://tenants-later.example/v1", APIKey: key("key-own-later"), Guarded: true, TenantID: "t1", OwnKey: true}},
		"provider-gone":           {spec: model.Spec{ModelRef: "gone/x"}, want: model.Target{Provider: "default", Model: "gone/x", BaseURL: "http://10.0.0.1:8000/v1", APIKey: key("key-d")}},
		"provider-gone-named":     {spec: model.Spec{ModelRef: "gone/x", APIKeyRef: "gone"}, err: "another endpoint"},
		"listed-under-that-name":  {spec: model.Spec{ModelRef: "free/large"}, want: model.Target{Provider: "default", Model: "free/large", BaseURL: "http://10.0.0.1:8000/v1", APIKey: key("key-d")}},
		"own-beside-listed":       {spec: model.Spec{ModelRef: "free/other"}, want: model.Target{Provider: "free", Model: "other", BaseURL: "https://free.example/v1", APIKey: key("key-free"), Guarded: true, TenantID: "t1", OwnKey: true}},
		"bare-name":               {spec: model.Spec{ModelRef: "small"}, want: model.Target{Provider: "default", Model: "small", BaseURL: "http://10.0.0.1:8000/v1", APIKey: key("key-d")}},
		"no-model":                {spec: model.Spec{ModelRef: "mine/"}, err: "mine/<model>"},
		"no-model-named":          {spec: model.Spec{APIKeyRef: "mine"}, err: "mine/<model>"},

		"named-and-prefixed":         {spec: model.Spec{ModelRef: "mine/x", APIKeyRef: "mine"}, want: model.Target{Provider: "mine", Model: "x", BaseURL: "https://mine.example/v1", APIKey: key("key-mine"), Guarded: true, TenantID: "t1", OwnKey: true}},
		"named-with-slash":           {spec: model.Spec{ModelRef: "meta/x", APIKeyRef: "mine"}, want: model.Target{Provider: "mine", Model: "meta/x", BaseURL: "https://mine.example/v1", APIKey: key("key-mine"), Guarded: true, TenantID: "t1", OwnKey: true}},
		"named-custom":               {spec: model.Spec{Provider: "custom", ModelRef: "x", APIKeyRef: "mine"}, want: model.Target{Provider: "mine", Model: "x", BaseURL: "https://mine.example/v1", APIKey: key("key-mine"), Guarded: true, TenantID: "t1", OwnKey: true}},
		"named-for-the-operators":    {spec: model.Spec{ModelRef: "default/small", APIKeyRef: "mine"}, err: "another endpoint"},
		"named-for-another-of-mine":  {spec: model.Spec{ModelRef: "openai/gpt", APIKeyRef: "mine"}, err: "another endpoint"},
		"named-twin-of-the-endpoint": {spec: model.Spec{ModelRef: "acme/x", APIKeyRef: "twin"}, want: model.Target{Provider: "acme", Model: "x", BaseURL: "https://ACME.example:443/v1", APIKey: key("key-twin"), OwnKey: true}},
		"named-moved":                {spec: model.Spec{ModelRef: "moved/x", APIKeyRef: "moved"}, err: "another endpoint"},
		"named-unknown":              {spec: model.Spec{ModelRef: "x", APIKeyRef: "nobody"}, err: `"nobody"`},

		// The key goes to the address as it was stored, however the agent spells it.
		"endpoint-spelled-otherwise": {spec: model.Spec{ModelRef: "x", EndpointURL: "HTTPS://MINE.example:443/v1/chat/completions", APIKeyRef: "mine"}, want: model.Target{Provider: "custom", Model: "x", BaseURL: "https://mine.example/v1", APIKey: key("key-mine"), Guarded: true, TenantID: "t1", OwnKey: true}},
		"endpoint-without-key":       {spec: model.Spec{ModelRef: "x", EndpointURL: "https://mine.example/v1"}, want: model.Target{Provider: "custom", Model: "x", BaseURL: "https://mine.example/v1", Guarded: true, TenantID: "t1"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := model.Resolver{Catalogue: catalogue(t, keysFile, ""), Credentials: vault{}}
			got, err := r.Resolve(t.Context(), "t1", test.spec)
			if test.err != "" {
				checkNotConfigured(t, err, test.err)
				return
			}
			if diff := cmp.Diff(test.want, got, compareTargets); err != nil || diff != "" {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// No address but the stored one gets a key, and no tenant but the one that
// stored it.
func TestKeysStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	r := model.Resolver{Catalogue: catalogue(t, keysFile, ""), Credentials: vault{}}
	for _, url := range []string{
		"https://evil.example/v1", "https://mine.example.evil/v1", "https://mine.example@evil.example/v1", "https://evil.example/v1#https://mine.example/v1",
		"https://mine.example/v2", "https://mine.example/v1/evil", "https://mine.example/", "https://mine.example/v1/../evil", "https://mine.example/x/../v1",
		"https://mine.example/v1?to=evil", "https://mine.example:8443/v1", "http://mine.example/v1", "http://mine.example:443/v1", "https://mine.example:443@evil/v1",
		`https://mine.example\@evil/v1`, "https://xmine.example/v1", "https://mine.example./v1", "https://mine.example%2eevil/v1", "https://mine.example/%76%31", "https://MİNE.example/v1",
		"http://10.0.0.1:8000/v1",
	} {
		_, err := r.Resolve(t.Context(), "t1", model.Spec{ModelRef: "x", EndpointURL: url, APIKeyRef: "mine"})
		checkNotConfigured(t, err, "another endpoint")
		got, err := r.Resolve(t.Context(), "t1", model.Spec{ModelRef: "x", EndpointURL: url})
		if err != nil || !got.APIKey.Empty() || !got.Guarded {
			t.Errorf("%s without a name of a key: %+v, %v", url, got, err)
		}
	}
	for name := range kept {
		_, err := r.Resolve(t.Context(), "t2", model.Spec{ModelRef: "x", APIKeyRef: name})
		checkNotConfigured(t, err, name)
		got, err := r.Resolve(t.Context(), "t2", model.Spec{ModelRef: name + "/x"})
		if err != nil || got.OwnKey || got.Guarded {
			t.Errorf("%s/x of another company: %+v, %v", name, got, err)
		}
	}
}

func TestKeysThatAreMissing(t *testing.T) {
	t.Parallel()
	r := model.Resolver{Catalogue: catalogue(t, `{"providers":[{"name":"a","base_url":"https://a.example/v1"}]}`, ""), Credentials: vault{}}
	_, err := r.Resolve(t.Context(), "t2", model.Spec{ModelRef: "openai/gpt"})
	checkNotConfigured(t, err, "PUT /api/v1/llm-credentials/openai")
	for _, spec := range []model.Spec{{ModelRef: "DOWN/x"}, {ModelRef: "x", APIKeyRef: "DOWN"}, {ModelRef: "DOWN/x", APIKeyRef: "mine"}, {ModelRef: "x", APIKeyRef: "DOWN", EndpointURL: "https://mine.example/v1"}} {
		if got, err := r.Resolve(t.Context(), "t1", spec); err == nil || got.OwnKey {
			t.Errorf("%+v with a store that is down: %+v", spec, got)
		}
	}
}

func TestProviderOfATenant(t *testing.T) {
	t.Parallel()
	key := secret.New
	r := model.Resolver{Catalogue: catalogue(t, keysFile, ""), Credentials: vault{}}
	for name, want := range map[string]model.Target{
		"mine":    {Provider: "mine", BaseURL: "https://mine.example/v1", APIKey: key("key-mine"), Guarded: true, TenantID: "t1", OwnKey: true},
		"private": {Provider: "private", BaseURL: "https://private.example/v1", APIKey: key("key-private"), Guarded: true, TenantID: "t1", OwnKey: true},
		"acme":    {Provider: "acme", BaseURL: "https://ACME.example:443/v1", APIKey: key("key-own-acme"), OwnKey: true},
		"moved":   {Provider: "moved", BaseURL: "https://after.example/v1", APIKey: key("key-m")},
		"later":   {Provider: "later", BaseURL: "https://tenants-later.example/v1", APIKey: key("key-own-later"), Guarded: true, TenantID: "t1", OwnKey: true},
		"default": {Provider: "default", BaseURL: "http://10.0.0.1:8000/v1", APIKey: key("key-d")},
	} {
		got, found, err := r.Provider(t.Context(), "t1", name)
		if diff := cmp.Diff(want, got, compareTargets); err != nil || !found || diff != "" {
			t.Errorf("%s: %t, %v (-want +got):\n%s", name, found, err, diff)
		}
	}
	for _, name := range []string{"gone", "nobody", ""} {
		if got, found, err := r.Provider(t.Context(), "t1", name); found || err != nil {
			t.Errorf("%q is %+v, %v", name, got, err)
		}
	}
	r.Credentials = nil
	if _, found, err := r.Provider(t.Context(), "t1", "acme"); !found || err != nil {
		t.Errorf("without credentials: %t, %v", found, err)
	}
}

// The markup is for calls with the operator's keys: a tenant with a key of its own pays its
// provider.
func TestOwnKeysHaveNoMarkup(t *testing.T) {
	t.Parallel()
	c := catalogue(t, `{"providers":[{"name":"acme","base_url":"https://ACME.example:443/v1","api_key":"key-a","models":[
		{"id":"x","input_usd_per_mtok":1,"output_usd_per_mtok":2,"cached_input_usd_per_mtok":0.5,
			"tiers":[{"above_tokens":1000,"input_usd_per_mtok":4,"output_usd_per_mtok":8}]}]}]}`, "")
	c.Mark(50)
	r := model.Resolver{Catalogue: c, Credentials: vault{}}
	for tenant, want := range map[string]float64{"t1": 1, "t2": 1.5} {
		got, err := r.Resolve(t.Context(), tenant, model.Spec{ModelRef: "acme/x"})
		if err != nil || got.Price == nil || got.Price.Input != want || got.Price.Output != 2*want || *got.Price.CachedInput != want/2 ||
			got.Price.Tiers[0].Input != 4*want {
			t.Errorf("%s pays %+v (own key: %t), want %v: %v", tenant, got.Price, got.OwnKey, want, err)
		}
	}
	if shown := c.List()[0].Price.Input; shown != 1.5 {
		t.Errorf("%v is shown", shown)
	}
	c.Mark(0)
	if got, err := c.Lookup("acme/x"); err != nil || got.Price.Input != 1 {
		t.Errorf("without a markup: %+v, %v", got.Price, err)
	}
}
