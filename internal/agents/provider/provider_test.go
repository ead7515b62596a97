package provider_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/agents/provider"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const file = `{"providers": [
	{"name": "default", "base_url": "http://10.0.0.1:8000/v1", "api_key": "operators-key", "models": [
		{"id": "large", "display_name": "Large", "context_window": 128000, "max_output_tokens": 8000, "tier": "big", "input_usd_per_mtok": 2, "output_usd_per_mtok": 8,
		 "supports_tool_calls": true, "supports_streaming": true, "supports_json_mode": false, "supports_vision": true},
		{"id": "plain"},
		{"id": "painter", "capabilities": {"images": true}}]},
	{"name": "openai", "base_url": "https://api.openai.com/v1/", "api_key": "operators-key", "models": [{"id": "tts-1", "modality": "tts"}, {"id": "whisper", "modality": "stt"}]},
	{"name": "acme", "display_name": "Acme Models", "base_url": "https://acme.internal/v1"}
]}`

// rig is a node whose tenant t1 keeps keys.
type rig struct {
	*provider.Service
	t       *testing.T
	kept    map[string]*model.Credential
	elapsed atomic.Int64

	mu     sync.Mutex
	asked  []string
	listed map[string][]model.Listed // by endpoint
	failed map[string]error
	health map[string]string
}

func (r *rig) All(_ context.Context, tenant string) (map[string]*model.Credential, error) {
	switch tenant {
	case "t1":
		return r.kept, nil
	case "down":
		return nil, fault.New(fault.Unavailable, "", "The database is locked.")
	}
	return nil, nil
}

func (r *rig) Kept(ctx context.Context, tenant, name string) (*model.Credential, error) {
	all, err := r.All(ctx, tenant)
	return all[name], err
}

func (r *rig) ListModels(_ context.Context, t model.Target) ([]model.Listed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, t.BaseURL+" "+t.APIKey.Reveal())
	return r.listed[t.BaseURL], r.failed[t.BaseURL]
}

var began = time.Date(2026, 9, 10, 12, 0, 0, 0, time.UTC)

func (r *rig) Health(name string) (string, time.Time) {
	if status := r.health[name]; status != "" {
		return status, began
	}
	return model.HealthUnknown, time.Time{}
}

func newRig(t *testing.T, providers, defaultRef string, adjust ...func(*provider.Deps)) *rig {
	t.Helper()
	r := &rig{
		t: t,
		kept: map[string]*model.Credential{
			"mine":    {Name: "mine", Endpoint: "https://mine.example/v1", Origin: model.OriginOwn, Shared: true, Key: secret.New("key-mine")},
			"groq":    {Name: "groq", Endpoint: "https://api.groq.com/openai/v1", Origin: model.OriginPublic, Shared: true, Key: secret.New("key-groq")},
			"private": {Name: "private", Endpoint: "https://private.example/v1", Origin: model.OriginOwn, Key: secret.New("key-private")},
			"acme":    {Name: "acme", Endpoint: "https://acme.internal/v1", Origin: model.OriginPlatform, Shared: true, Key: secret.New("key-acme")},
			"gone":    {Name: "gone", Endpoint: "https://gone.internal/v1", Origin: model.OriginPlatform, Shared: true, Key: secret.New("key-gone")},
		},
		listed: map[string][]model.Listed{
			"http://10.0.0.1:8000/v1":        {{ID: "plain", Created: 5}, {ID: "more", Context: 4096, Created: 7, Name: "More"}},
			"https://mine.example/v1":        {{ID: "m1", Name: "One", Context: 1000}, {ID: "m2"}},
			"https://acme.internal/v1":       {},
			"https://private.example/v1":     {{ID: "p1"}},
			"https://api.groq.com/openai/v1": {{ID: "g1"}},
		},
		failed: map[string]error{},
		health: map[string]string{"default": model.HealthDegraded, "mine": model.HealthDown},
	}
	var parsed []model.Provider
	if providers != "" {
		var err error
		if parsed, err = model.ParseProviders([]byte(providers)); err != nil {
			t.Fatal(err)
		}
	}
	catalogue, err := model.NewCatalogue(parsed, defaultRef)
	if err != nil {
		t.Fatal(err)
	}
	deps := provider.Deps{
		Resolver: model.Resolver{Catalogue: catalogue, Credentials: r}, Credentials: r, Lister: r, Health: r,
		Elapsed: func() time.Duration { return time.Duration(r.elapsed.Load()) },
	}
	for _, f := range adjust {
		f(&deps)
	}
	r.Service = provider.New(deps)
	return r
}

// get calls an operation as a tenant does and gives its answer as JSON.
func (r *rig) get(tenant, id, name string) (string, error) {
	r.t.Helper()
	routes := r.Routes()
	one := routes[slices.IndexFunc(routes, func(one route.Route) bool { return one.ID == id })]
	in := reflect.New(one.In)
	if one.In.NumField() > 0 {
		in.Elem().Field(0).SetString(name)
	}
	out, err := one.Call(r.t.Context(), authz.Caller{TenantID: tenant}, in.Interface())
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(out, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, hidden := range []string{"operators-key", "10.0.0.1", ".internal", "key-"} {
		if strings.Contains(string(text), hidden) {
			r.t.Errorf("%s shows %s: %s", id, hidden, text)
		}
	}
	return string(text), nil
}

func (r *rig) must(tenant, id, name string) string {
	r.t.Helper()
	text, err := r.get(tenant, id, name)
	if err != nil {
		r.t.Fatal(err)
	}
	return text
}

// has fails unless a text has every piece.
func has(t *testing.T, text string, pieces ...string) {
	t.Helper()
	for _, p := range pieces {
		if !strings.Contains(text, p) {
			t.Errorf("there is no %s in %s", p, text)
		}
	}
}

func TestProviders(t *testing.T) {
	t.Parallel()
	r := newRig(t, file, "")
	text := r.must("t1", "listProviders", "")
	has(t, text,
		`{"id":"default","name":"default","canonical":"default","configured":true,"configured_level":"platform","default_endpoint":"","local":false,"health":{"status":"degraded","since":"2026-09-10T12:00:00Z"}}`,
		`{"id":"openai","name":"OpenAI","canonical":"openai","configured":true,"configured_level":"platform","default_endpoint":"https://api.openai.com/v1","local":false,"health":{"status":"unknown"}}`,
		`{"id":"acme","name":"Acme Models","canonical":"acme","configured":true,"configured_level":"tenant","default_endpoint":"",`,
		`{"id":"groq","name":"Groq","canonical":"groq","configured":true,"configured_level":"tenant","default_endpoint":"https://api.groq.com/openai/v1",`,
		`{"id":"mine","name":"mine","canonical":"mine","configured":true,"configured_level":"tenant","default_endpoint":"https://mine.example/v1","local":false,"health":{"status":"unknown"}}`,
		`{"id":"mistral","name":"Mistral AI","canonical":"mistral","configured":false,"configured_level":null,"default_endpoint":"https://api.mistral.ai/v1",`,
		`{"id":"ollama","name":"Ollama","canonical":"ollama","configured":false,"configured_level":null,"default_endpoint":"http://127.0.0.1:11434/v1","local":true,`,
	)
	if strings.Contains(text, `"gone"`) || strings.Count(text, `"id":"openai"`) != 1 {
		t.Errorf("there is too much: %s", text)
	}
	other := r.must("t2", "listProviders", "")
	has(t, other, `{"id":"acme","name":"Acme Models","canonical":"acme","configured":true,"configured_level":"platform",`, `{"id":"groq","name":"Groq","canonical":"groq","configured":false,`)
	if strings.Contains(other, "mine") {
		t.Errorf("another company's: %s", other)
	}
	if _, err := r.get("down", "listProviders", ""); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a database that is down: %v", err)
	}
	unwatched := newRig(t, file, "", func(d *provider.Deps) { d.Health = nil })
	has(t, unwatched.must("t1", "listProviders", ""), `"health":{"status":"unknown"}`)
}

func TestModelsOfAProvider(t *testing.T) {
	t.Parallel()
	r := newRig(t, file, "")
	r.failed["https://api.openai.com/v1"] = &model.Error{Detail: "It is away."}
	r.failed["https://api.groq.com/openai/v1"] = &model.Error{Detail: "It is away."}
	for name, want := range map[string]string{
		"default": `{"provider":"default","endpoint_url":"","models":[` +
			`{"id":"large","name":"Large","capabilities":{"max_context_tokens":128000,"max_output_tokens":8000,"supports_tool_calls":true,"supports_streaming":true,"supports_json_mode":false,"supports_vision":true,"modality":"chat"}},` +
			`{"id":"plain","name":"plain","capabilities":{"modality":"chat"}},{"id":"painter","name":"painter","capabilities":{"modality":"image"}},` +
			`{"id":"more","name":"More","created":7,"capabilities":{"max_context_tokens":4096}}]}`,
		"mine":    `{"provider":"mine","endpoint_url":"https://mine.example/v1","models":[{"id":"m1","name":"One","capabilities":{"max_context_tokens":1000}},{"id":"m2","name":"m2","capabilities":{}}]}`,
		"private": `{"provider":"private","endpoint_url":"https://private.example/v1","models":[{"id":"p1","name":"p1","capabilities":{}}]}`,
		"acme":    `{"provider":"acme","endpoint_url":"","models":[],"empty_reason":"none"}`,
		// What the operator lists is there all the same.
		"openai": `{"provider":"openai","endpoint_url":"https://api.openai.com/v1","models":[{"id":"tts-1","name":"tts-1","capabilities":{"modality":"tts"}},{"id":"whisper","name":"whisper","capabilities":{"modality":"stt"}}],"error":"It is away."}`,
		"groq":   `{"provider":"groq","endpoint_url":"https://api.groq.com/openai/v1","models":[],"error":"It is away.","empty_reason":"no_answer"}`,
		"mistral": `{"provider":"mistral","endpoint_url":"https://api.mistral.ai/v1","models":[],` +
			`"error":"No key for this provider is stored in this company; store one with PUT /api/v1/llm-credentials/mistral.","empty_reason":"no_key"}`,
	} {
		if diff := cmp.Diff(want, r.must("t1", "listProviderModels", name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, name := range []string{"nobody", "gone", "", "\xff"} {
		if text, err := r.get("t1", "listProviderModels", name); !fault.Is(err, fault.NotFound) {
			t.Errorf("%q: %s, %v", name, text, err)
		}
	}
	if _, err := r.get("t2", "listProviderModels", "mine"); !fault.Is(err, fault.NotFound) {
		t.Errorf("another company's: %v", err)
	}
	slices.Sort(r.asked)
	want := []string{
		"http://10.0.0.1:8000/v1 operators-key", "https://acme.internal/v1 key-acme", "https://api.groq.com/openai/v1 key-groq", "https://api.openai.com/v1 operators-key",
		"https://mine.example/v1 key-mine", "https://private.example/v1 key-private",
	}
	if diff := cmp.Diff(want, r.asked); diff != "" {
		t.Errorf("asked with these keys (-want +got):\n%s", diff)
	}
}

// An endpoint is asked once a minute for each key, and not so soon again where
// it failed.
func TestListsAreKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, file, "")
	asked := func(want int, after time.Duration, tenants ...string) {
		t.Helper()
		r.elapsed.Add(int64(after))
		var all sync.WaitGroup
		for _, tenant := range tenants {
			for range 4 {
				all.Go(func() {
					if _, err := r.get(tenant, "listProviderModels", "acme"); err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		if len(r.asked) != want {
			t.Errorf("asked %v, want %d", r.asked, want)
		}
	}
	asked(1, 0, "t1")
	asked(2, 0, "t1", "t2", "t3") // those with the operator's key share an answer
	asked(2, 59*time.Second, "t1", "t2")
	asked(4, 2*time.Second, "t1", "t2")
	r.kept["acme"] = &model.Credential{Name: "acme", Endpoint: "https://acme.internal/v1", Origin: model.OriginPlatform, Shared: true, Key: secret.New("key-new")}
	asked(5, 0, "t1") // another key may see others
	r.failed["https://acme.internal/v1"] = &model.Error{Detail: "It is away."}
	asked(6, time.Minute+time.Second, "t1")
	asked(6, 9*time.Second, "t1")
	asked(7, 2*time.Second, "t1")
	r.failed["https://acme.internal/v1"] = errors.New("broken")
	r.elapsed.Add(int64(time.Hour))
	if _, err := r.get("t1", "listProviderModels", "acme"); err == nil {
		t.Error("what is no failure of the endpoint is an answer")
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	r := newRig(t, file, "acme/chosen")
	r.failed["https://api.groq.com/openai/v1"] = &model.Error{Detail: "It is away."}
	text := r.must("t1", "listLlmModels", "")
	has(t, text,
		`{"id":"default/large","display_name":"Large","provider":"default","tier":"big","pricing":{"input_usd_per_mtok":2,"output_usd_per_mtok":8,"known":true},"max_context_tokens":128000,"max_output_tokens":8000,`+
			`"supports_tool_calls":true,"supports_streaming":true,"supports_json_mode":false,"supports_vision":true,"modality":"chat"}`,
		`{"id":"default/plain","display_name":"plain","provider":"default","tier":"","pricing":{"input_usd_per_mtok":0,"output_usd_per_mtok":0,"known":false},"max_context_tokens":0,"max_output_tokens":0,`+
			`"supports_tool_calls":true,"supports_streaming":true,"supports_json_mode":false,"supports_vision":false,"modality":"chat"}`,
		`{"id":"openai/tts-1",`, `"modality":"tts"}`, `{"id":"acme/chosen",`,
		`{"id":"mine/m1","display_name":"One","provider":"mine","tier":"","pricing":{"input_usd_per_mtok":0,"output_usd_per_mtok":0,"known":false},"max_context_tokens":1000,`, `"modality":null}`,
		`"default_provider":"acme","default_model":"acme/chosen"`,
	)
	for _, never := range []string{"private/", "groq/", "builtin"} {
		if strings.Contains(text, never) {
			t.Errorf("has %s: %s", never, text)
		}
	}
	if other := r.must("t2", "listLlmModels", ""); strings.Contains(other, "mine") {
		t.Errorf("another company's: %s", other)
	}
	if _, err := r.get("down", "listLlmModels", ""); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a database that is down: %v", err)
	}
	none := newRig(t, "", "")
	has(t, none.must("t2", "listLlmModels", ""), `"models":[{"id":"builtin/echo",`, `"default_provider":"builtin","default_model":"builtin/echo"`)
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ file, model, fallback, want string }{
		"private": {file, "large", "openai/gpt", `{"default_provider":"default","default_model":"default/large","default_endpoint":null,"fallback_provider":"openai","fallback_model":"openai/gpt"}`},
		"public":  {file, "openai/gpt", "", `{"default_provider":"openai","default_model":"openai/gpt","default_endpoint":"https://api.openai.com/v1","fallback_provider":null,"fallback_model":null}`},
		"none":    {"", "", "", `{"default_provider":"builtin","default_model":"builtin/echo","default_endpoint":null,"fallback_provider":null,"fallback_model":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tt.file, tt.model, func(d *provider.Deps) {
				var parsed []model.Provider
				if tt.file != "" {
					var err error
					if parsed, err = model.ParseProviders([]byte(tt.file)); err != nil {
						t.Fatal(err)
					}
				}
				if err := d.Resolver.Catalogue.Replace(model.Offering{Providers: parsed, Default: tt.model, Fallback: tt.fallback}); err != nil {
					t.Fatal(err)
				}
			})
			if diff := cmp.Diff(tt.want, r.must("", "getPlatformLlmDefaults", "")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMedia(t *testing.T) {
	t.Parallel()
	bare := newRig(t, `{"providers":[{"name":"a","base_url":"http://10.0.0.1/v1","models":[{"id":"m"}]}]}`, "")
	for _, id := range []string{"listImageProviders", "listVideoProviders", "listVoiceProviders"} {
		if text := bare.must("t1", id, ""); text != `{"providers":[]}` {
			t.Errorf("%s of nothing: %s", id, text)
		}
	}
	if diff := cmp.Diff(`{"stt":{"configured":false,"endpoint":"/api/v1/llm/audio/transcriptions"},"tts":{"configured":false,"endpoint":"/api/v1/llm/audio/speech"}}`,
		bare.must("t1", "getVoiceConfig", "")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r := newRig(t, file, "", func(d *provider.Deps) {
		d.Voice = func() provider.Voice {
			return provider.Voice{Speech: "openai/tts-1", Transcription: "acme/ear", Name: "ash"}
		}
	})
	model := func(id, name, modality string, chosen bool) string {
		return fmt.Sprintf(`{"id":%q,"name":%q,"modality":%q,"default":%t}`, id, name, modality, chosen)
	}
	for id, want := range map[string]string{
		"listImageProviders": `{"providers":[{"id":"default","name":"default","configured":true,"local":false,"models":[` + model("default/painter", "painter", "image", true) + `]}]}`,
		"listVideoProviders": `{"providers":[]}`,
		"listVoiceProviders": `{"providers":[{"id":"openai","name":"OpenAI","configured":true,"local":false,"models":[` + model("openai/tts-1", "tts-1", "tts", true) + `,` +
			model("openai/whisper", "whisper", "stt", false) + `]},{"id":"acme","name":"Acme Models","configured":true,"local":false,"models":[` + model("acme/ear", "ear", "stt", true) + `]}]}`,
		"getVoiceConfig": `{"stt":{"configured":true,"provider":"acme","model":"acme/ear","endpoint":"/api/v1/llm/audio/transcriptions"},` +
			`"tts":{"configured":true,"provider":"openai","model":"openai/tts-1","endpoint":"/api/v1/llm/audio/speech","voice":"ash"}}`,
	} {
		if diff := cmp.Diff(want, r.must("t1", id, "")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
}
