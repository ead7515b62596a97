package model_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
)

const providersFile = `{"providers": [
	{"name": "default", "base_url": "http://10.0.0.1:8000/v1/", "api_key": "key-d",
	 "models": [{"id": "small", "context_window": 8000, "input_usd_per_mtok": 1, "output_usd_per_mtok": 2}, {"id": "free/large"}]},
	{"name": "acme", "base_url": "https://acme.example/v1", "api_key": "key-a", "models": [{"id": "x"}]}
]}`

func catalogue(t *testing.T, file, defaultRef string) *model.Catalogue {
	t.Helper()
	var providers []model.Provider
	if file != "" {
		var err error
		if providers, err = model.ParseProviders([]byte(file)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := model.NewCatalogue(providers, defaultRef)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var compareTargets = cmp.Options{cmp.Comparer(func(a, b secret.String) bool { return a.Reveal() == b.Reveal() })}

func TestResolve(t *testing.T) {
	t.Parallel()
	key := secret.New
	small := model.Target{Provider: "default", Model: "small", BaseURL: "http://10.0.0.1:8000/v1", APIKey: key("key-d"), Price: &model.Price{Rates: model.Rates{Input: 1, Output: 2}}, Context: 8000}
	tests := map[string]struct {
		spec model.Spec
		want model.Target
		err  string // in the sentence
	}{
		"bare":             {spec: model.Spec{Provider: "openai_compat", ModelRef: "small"}, want: small},
		"prefixed":         {spec: model.Spec{Provider: "openai_compat", ModelRef: "default/small"}, want: small},
		"default":          {spec: model.Spec{Provider: "openai_compat"}, want: small},
		"no-provider-said": {spec: model.Spec{}, want: small},
		"slash-in-name": {
			spec: model.Spec{ModelRef: "free/large"},
			want: model.Target{Provider: "default", Model: "free/large", BaseURL: "http://10.0.0.1:8000/v1", APIKey: key("key-d")},
		},
		"slash-in-unlisted-name": {
			spec: model.Spec{ModelRef: "meta/llama-3"},
			want: model.Target{Provider: "default", Model: "meta/llama-3", BaseURL: "http://10.0.0.1:8000/v1", APIKey: key("key-d")},
		},
		"other-provider": {
			spec: model.Spec{ModelRef: "acme/meta/llama-3"},
			want: model.Target{Provider: "acme", Model: "meta/llama-3", BaseURL: "https://acme.example/v1", APIKey: key("key-own-acme"), OwnKey: true},
		},
		"provider-only": {spec: model.Spec{ModelRef: "acme/"}, err: "acme/<model>"},
		"own-endpoint": {
			spec: model.Spec{Provider: "openai_compat", ModelRef: "small", EndpointURL: "https://mine.example/v1/chat/completions"},
			want: model.Target{Provider: "custom", Model: "small", BaseURL: "https://mine.example/v1", Guarded: true, TenantID: "t1"},
		},
		"own-endpoint-and-key": {
			spec: model.Spec{Provider: "custom", ModelRef: "acme/x", EndpointURL: "https://mine.example/v1/", APIKeyRef: "mine"},
			want: model.Target{Provider: "custom", Model: "acme/x", BaseURL: "https://mine.example/v1", APIKey: key("key-mine"), Guarded: true, TenantID: "t1", OwnKey: true},
		},
		"own-endpoint-with-unknown-key": {
			spec: model.Spec{Provider: "custom", ModelRef: "x", EndpointURL: "https://mine.example/v1", APIKeyRef: "OTHER"}, err: `"OTHER"`,
		},
		"operators-endpoint-named-by-tenant": {
			spec: model.Spec{Provider: "openai_compat", ModelRef: "small", EndpointURL: "http://10.0.0.1:8000/v1"},
			want: model.Target{Provider: "custom", Model: "small", BaseURL: "http://10.0.0.1:8000/v1", Guarded: true, TenantID: "t1"},
		},
		"endpoint-without-model":  {spec: model.Spec{EndpointURL: "https://mine.example/v1"}, err: "model_ref"},
		"echo":                    {spec: model.Spec{Provider: "custom", ModelRef: "builtin/echo"}, want: model.Target{Provider: "builtin", Model: "echo", Price: &model.Price{}}},
		"custom-without-endpoint": {spec: model.Spec{Provider: "custom", ModelRef: "x"}, err: "endpoint_url"},
		"unknown-kind":            {spec: model.Spec{Provider: "soothsayer", ModelRef: "x"}, err: "soothsayer"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := model.Resolver{Catalogue: catalogue(t, providersFile, ""), Credentials: vault{}}
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

func TestResolveWithoutModels(t *testing.T) {
	t.Parallel()
	r := model.Resolver{Catalogue: catalogue(t, "", "")}
	_, err := r.Resolve(t.Context(), "t1", model.Spec{ModelRef: "x"})
	checkNotConfigured(t, err, "AGENTD_MODEL_BASE_URL")
	_, err = r.Resolve(t.Context(), "t1", model.Spec{})
	checkNotConfigured(t, err, "AGENTD_MODEL_BASE_URL")
	_, err = r.Resolve(t.Context(), "t1", model.Spec{ModelRef: "x", EndpointURL: "https://mine.example/v1", APIKeyRef: "MINE"})
	checkNotConfigured(t, err, "MINE")

	r.Catalogue = catalogue(t, "", model.EchoRef)
	if got, err := r.Resolve(t.Context(), "t1", model.Spec{}); err != nil || got.Provider != model.Builtin {
		t.Errorf("echo as the default model: %+v, %v", got, err)
	}
	r.Catalogue = catalogue(t, `{"providers":[{"name":"acme","base_url":"https://a.example/v1"}]}`, "")
	_, err = r.Resolve(t.Context(), "t1", model.Spec{ModelRef: "x"})
	checkNotConfigured(t, err, "there is acme")
	_, err = r.Resolve(t.Context(), "t1", model.Spec{})
	checkNotConfigured(t, err, "AGENTD_MODEL")
}

// A store of credentials that is down is not a wrong configuration.
func TestCredentialsFail(t *testing.T) {
	t.Parallel()
	r := model.Resolver{Catalogue: catalogue(t, "", ""), Credentials: vault{}}
	_, err := r.Resolve(t.Context(), "t1", model.Spec{ModelRef: "x", EndpointURL: "https://mine.example", APIKeyRef: "DOWN"})
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("error = %v", err)
	}
}

// vault is what the tenant t1 keeps.
type vault struct{}

func (vault) Kept(_ context.Context, tenant, name string) (*model.Credential, error) {
	if name == "DOWN" {
		return nil, fault.New(fault.Unavailable, "", "The database is locked.")
	}
	if tenant != "t1" {
		return nil, nil
	}
	return kept[name], nil
}

func checkNotConfigured(t *testing.T, err error, words string) {
	t.Helper()
	e, ok := errors.AsType[*model.Error](err)
	if !ok || e.Code != "provider_not_configured" || !strings.Contains(e.Detail, words) || e.Retryable {
		t.Errorf("error = %v, want provider_not_configured with %q", err, words)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	c := catalogue(t, providersFile, "acme/y")
	chat := model.Facts{Modality: model.Chat}
	want := []model.Entry{
		{Ref: "default/small", Provider: "default", Model: "small", Context: 8000, Price: &model.Price{Rates: model.Rates{Input: 1, Output: 2}}, Facts: chat},
		{Ref: "default/free/large", Provider: "default", Model: "free/large", Facts: chat},
		{Ref: "acme/x", Provider: "acme", Model: "x", Facts: chat},
		{Ref: "acme/y", Provider: "acme", Model: "y", Facts: chat}, // the default model is listed too
	}
	if diff := cmp.Diff(want, c.List(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if c.Default() != "acme/y" {
		t.Errorf("Default = %q", c.Default())
	}
	if _, err := model.NewCatalogue([]model.Provider{{Name: "a", BaseURL: "http://a"}}, "x"); err == nil {
		t.Error("a default model of no provider is accepted")
	}
}

func TestParseProvidersRefuses(t *testing.T) {
	t.Parallel()
	one := func(members string) string { return `{"providers":[{` + members + `}]}` }
	for file, words := range map[string]string{
		``:                    "not JSON",
		`[]`:                  "wrong kind",
		`{}`:                  "lists no provider",
		`{"provider":[]}`:     "provider is not a known setting",
		`{"providers":[]} {}`: "not JSON",
		one(`"name":"a","name":"b","base_url":"http://a"`):        "not JSON",
		one(`"name":"a","base_url":"http://a","api_key":7`):       "providers/0/api_key",
		one(`"name":"a","base_url":"http://a","apikey":"sesame"`): "apikey is not a known",
		one(`"base_url":"http://a"`):                              "name",
		one(`"name":"A b","base_url":"http://a"`):                 "lower-case",
		one(`"name":"a/b","base_url":"http://a"`):                 "lower-case",
		one(`"name":"builtin","base_url":"http://a"`):             "taken",
		one(`"name":"a"`):                                                                                               "base_url",
		one(`"name":"a","base_url":"ftp://a"`):                                                                          "base_url",
		one(`"name":"a","base_url":"http://u:sesame@a"`):                                                                "base_url",
		one(`"name":"a","base_url":"http://a?sesame=1"`):                                                                "base_url",
		one(`"name":"a","base_url":"http://a","models":[{}]`):                                                           "no id",
		one(`"name":"a","base_url":"http://a","models":[{"id":"m"},{"id":"m"}]`):                                        "twice",
		one(`"name":"a","base_url":"http://a","models":[{"id":"m","context_window":-1}]`):                               "negative",
		one(`"name":"a","base_url":"http://a","models":[{"id":"m","input_usd_per_mtok":1}]`):                            "both",
		one(`"name":"a","base_url":"http://a","models":[{"id":"m","input_usd_per_mtok":-1,"output_usd_per_mtok":"1"}]`): "wrong kind",
		one(`"name":"a","base_url":"http://a","models":[{"id":"m","input_usd_per_mtok":-1,"output_usd_per_mtok":1}]`):   "negative",
		one(`"name":"a","base_url":"http://a","models":[{"id":"m","modality":"smell"}]`):                                "modality",
		one(`"name":"a","base_url":"http://a","models":[{"id":"m","max_output_tokens":-1}]`):                            "max_output_tokens",
		one(`"name":"a","base_url":"http://a","models":[{"id":"m","supports_vision":"yes"}]`):                           "supports_vision",
		one(`"name":"a","base_url":"http://a","models":[{"id":"m","context_window":1.5,"input":1}]`):                    "context_window",
	} {
		_, err := model.ParseProviders([]byte(file))
		if err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s\n\terror = %v, want %q and no values", file, err, words)
		}
	}
	same := `{"name":"a","base_url":"http://a"}`
	providers, err := model.ParseProviders([]byte(`{"providers":[` + same + `,` + same + `]}`))
	if err == nil {
		_, err = model.NewCatalogue(providers, "")
	}
	if err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("two providers of one name: %v", err)
	}
}

func TestEstimate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "a": 1, "abcd": 1, "abcde": 2, "äöüß": 1, strings.Repeat("x", 4000): 1000} {
		if got := model.EstimateTokens(text); got != want {
			t.Errorf("EstimateTokens(%q) = %d, want %d", text, got, want)
		}
	}
}
