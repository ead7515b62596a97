package providerkey

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/egress"
	"agentd/internal/kernel/model"
)

// Routes returns the routes for keys.
func (s *Service) Routes() []route.Route {
	const tag, all = "LLM Credentials", "/api/v1/llm-credentials/"
	read, write := []authz.Scope{"agents:read"}, []authz.Scope{"agents:write"}
	return []route.Route{
		route.Action(route.Row{
			Method: "GET", Path: all + "providers", ID: "listLlmCredentialProviders", Tag: tag, Scopes: read, Role: authz.Viewer,
			Summary: "List providers with the state of their key",
		}, s.list),
		route.Action(route.Row{
			Method: "PUT", Path: all + "{provider}", ID: "setLlmCredential", Tag: tag, Scopes: write, Role: authz.Admin, Fresh: true,
			Summary: "Set the company's key for a provider", Errors: []int{400},
			Doc: "The key is stored encrypted, never shown again, and sent only to the provider's endpoint. With endpoint_url it belongs " +
				"to the company's own provider.",
		}, s.put),
		route.Action(route.Row{
			Method: "DELETE", Path: all + "{provider}", ID: "deleteLlmCredential", Tag: tag, Scopes: write, Role: authz.Admin, Fresh: true,
			Summary: "Delete the company's key for a provider", Errors: []int{404},
		}, s.remove),
		route.Action(route.Row{
			Method: "POST", Path: all + "{provider}/test", ID: "testLlmCredential", Tag: tag, Scopes: write, Role: authz.Admin,
			Summary: "Test the company's key for a provider", Errors: []int{400}, Outside: true,
			Doc: "Requests the provider's list of models, which is free of charge, for at most ten seconds. The status is 200 even if the " +
				"key is rejected.",
		}, s.test),
	}
}

// Provider is a provider that a key can be stored for.
type Provider struct {
	_ struct{} `json:"-" name:"LlmCredentialProvider"`

	ID              string     `json:"id" required:"true"`
	Name            string     `json:"name" required:"true" doc:"Display name."`
	Configured      bool       `json:"configured" required:"true" doc:"The company has stored a key."`
	Local           bool       `json:"local" required:"true" doc:"Runs on the user's own machine, at its usual port."`
	DefaultEndpoint string     `json:"default_endpoint" required:"true" doc:"Where the key is sent; empty if the operator of this deployment chose it."`
	Shared          *bool      `json:"shared,omitzero" doc:"Used for every model of the provider, not only by agents that name it in api_key_ref."`
	Stale           bool       `json:"stale,omitzero" doc:"Not used, because the provider's endpoint has changed since it was stored. Store it again."`
	UpdatedAt       *time.Time `json:"updated_at,omitzero"`

	MaxConcurrency  int `json:"max_concurrency,omitzero" doc:"Calls at a time with the stored key. Absent: no limit."`
	TokensPerMinute int `json:"tokens_per_minute,omitzero" doc:"Tokens per minute with the stored key. Absent: no limit."`
}

type providerList struct {
	_ struct{} `json:"-" name:"LlmCredentialProviders"`

	Providers []Provider `json:"providers" required:"true"`
}

func (s *Service) list(ctx context.Context, who authz.Caller, _ *struct{}) (providerList, error) {
	rows, err := s.Store.List(ctx, who.TenantID)
	if err != nil {
		return providerList{}, err
	}
	out := providerList{}
	at := map[string]int{}
	add := func(p Provider) {
		if _, there := at[p.ID]; !there {
			at[p.ID] = len(out.Providers)
			out.Providers = append(out.Providers, p)
		}
	}
	for _, p := range s.Catalogue.Providers() {
		add(Provider{ID: p.Name, Name: p.Title, DefaultEndpoint: p.Public})
	}
	for _, p := range model.Publics() {
		add(Provider{ID: p.ID, Name: p.Name, Local: p.Local, DefaultEndpoint: p.Endpoint})
	}
	for i := range rows {
		r := &rows[i]
		add(Provider{ID: r.ProviderID, Name: r.ProviderID})
		p := &out.Providers[at[r.ProviderID]]
		p.Configured, p.Shared, p.UpdatedAt = true, &r.Shared, &r.UpdatedAt
		p.MaxConcurrency, p.TokensPerMinute = r.Limits.MaxConcurrency, r.Limits.TokensPerMinute
		if r.Origin == model.OriginPlatform {
			p.Stale = !s.Catalogue.At(r.ProviderID, r.Endpoint)
		} else {
			p.DefaultEndpoint = r.Endpoint
		}
	}
	return out, nil
}

type putIn struct {
	Provider string `path:"provider" doc:"A listed provider, or the name of the company's own."`
	Body     struct {
		_ struct{} `json:"-" name:"LlmCredentialSet"`

		APIKey      string `json:"api_key" required:"true" doc:"10 to 500 characters. Stored encrypted, never shown again."`
		Shared      *bool  `json:"shared,omitzero" nullable:"true" doc:"Use the key for every model of the provider (default), not only for agents that name it in api_key_ref. Absent: unchanged."`
		EndpointURL string `json:"endpoint_url,omitzero" doc:"Endpoint of the company's own provider, as in https://host/v1. Absent: unchanged."`

		Wire   *string `json:"wire,omitzero" enum:"openai_chat,openai_responses,anthropic,gemini,bedrock,azure_openai" doc:"Protocol of the company's own endpoint. Absent: unchanged; at first that of the address, else openai_chat."`
		Access *Access `json:"access,omitzero" doc:"What the provider's wire needs beside the key. Absent: unchanged."`

		MaxConcurrency  *int `json:"max_concurrency,omitzero" doc:"How many calls the provider takes at a time with this key, 0 to 100000; what is over waits. 0: no limit. Absent: unchanged."`
		TokensPerMinute *int `json:"tokens_per_minute,omitzero" doc:"How many tokens a minute the provider takes with this key, 0 to 1000000000; what is over waits. 0: no limit. Absent: unchanged."`
	}
}

// Stored is the answer to setting a key.
type Stored struct {
	_ struct{} `json:"-" name:"LlmCredential"`

	ProviderID string    `json:"provider_id" required:"true"`
	Configured bool      `json:"configured" required:"true"`
	Shared     bool      `json:"shared" required:"true"`
	UpdatedAt  time.Time `json:"updated_at" required:"true"`
	Wire       string    `json:"wire" required:"true" doc:"Protocol of the endpoint that the key is sent to."`

	MaxConcurrency  int `json:"max_concurrency,omitzero" doc:"Absent: no limit."`
	TokensPerMinute int `json:"tokens_per_minute,omitzero" doc:"Absent: no limit."`
}

func (s *Service) put(ctx context.Context, who authz.Caller, in *putIn) (out Stored, err error) {
	b := &in.Body
	if err := checkAPIKey(b.APIKey); err != nil {
		return Stored{}, err
	}
	if err := checkLimits(b.MaxConcurrency, b.TokensPerMinute); err != nil {
		return Stored{}, err
	}
	if b.EndpointURL != "" {
		if err := s.checkEndpoint(ctx, who.TenantID, in.Provider, b.EndpointURL); err != nil {
			return Stored{}, err
		}
	}
	now := s.Clock.Now()
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		count, err := s.Store.CountTx(tx, who.TenantID) // first, because it locks out concurrent inserts
		if err != nil {
			return err
		}
		before, err := s.Store.LockTx(tx, who.TenantID, in.Provider)
		if err != nil {
			return err
		}
		r := Row{TenantID: who.TenantID, ProviderID: in.Provider, Shared: true, CreatedAt: now, UpdatedAt: now}
		if r.Endpoint, r.Origin, err = s.endpointOf(in.Provider, b.EndpointURL, before); err != nil {
			return err
		}
		if before != nil {
			r.Shared, r.CreatedAt, r.Limits, r.Access = before.Shared, before.CreatedAt, before.Limits, before.Access
			if r.Origin == model.OriginOwn {
				r.Wire = before.Wire
			}
		} else if count >= maxKeys {
			return fault.New(fault.Invalid, "limit_reached",
				"This company has stored %d keys, which is the limit; delete an unused one first.", count)
		}
		if b.Shared != nil {
			r.Shared = *b.Shared
		}
		if b.MaxConcurrency != nil {
			r.Limits.MaxConcurrency = *b.MaxConcurrency
		}
		if b.TokensPerMinute != nil {
			r.Limits.TokensPerMinute = *b.TokensPerMinute
		}
		if err := s.setAccess(&r, b.Wire, b.Access); err != nil {
			return err
		}
		r.Sealed = s.Box.Seal([]byte(b.APIKey), sealedFor(r.TenantID, r.ProviderID, r.Endpoint))
		if err := s.Store.PutTx(tx, &r); err != nil {
			return err
		}
		if err := s.record(tx, who, "llm_credentials.set", &r); err != nil {
			return err
		}
		out = Stored{ProviderID: r.ProviderID, Configured: true, Shared: r.Shared, UpdatedAt: now, Wire: string(s.wireOf(&r)),
			MaxConcurrency: r.Limits.MaxConcurrency, TokensPerMinute: r.Limits.TokensPerMinute}
		return txn.Answer(tx, out)
	})
	return out, err
}

// checkEndpoint checks where the endpoint of a tenant's own provider leads to, unless
// it is the stored one. Errors: those of endpointOf; fault.Invalid.
func (s *Service) checkEndpoint(ctx context.Context, tenant, provider, requested string) error {
	rows, err := s.Store.List(ctx, tenant)
	if err != nil {
		return err
	}
	var before *Row
	var stored []egress.Address
	if i := slices.IndexFunc(rows, func(r Row) bool { return r.ProviderID == provider }); i >= 0 {
		before, stored = &rows[i], []egress.Address{{URL: rows[i].Endpoint}}
	}
	endpoint, _, err := s.endpointOf(provider, requested, before)
	if err != nil {
		return err
	}
	return s.Egress.CheckNew(ctx, tenant, stored, []egress.Address{{Field: "endpoint_url", URL: endpoint}})
}

// checkLimits returns the error of limits that are out of range.
func checkLimits(concurrency, tokens *int) error {
	var wrong []fault.Field
	for _, limit := range []struct {
		name string
		n    *int
		most int
	}{{"max_concurrency", concurrency, model.MaxMaxConcurrency}, {"tokens_per_minute", tokens, model.MaxTokensPerMinute}} {
		if limit.n != nil {
			if message := model.CheckLimit(*limit.n, limit.most); message != "" {
				wrong = append(wrong, fault.Field{Field: limit.name, Message: message})
			}
		}
	}
	if wrong != nil {
		return fault.BadFields(wrong...)
	}
	return nil
}

// checkAPIKey returns the error of an invalid key, without showing it.
func checkAPIKey(key string) error {
	n := utf8.RuneCountInString(key)
	var problems []string
	if n < minKey || n > maxKey {
		problems = append(problems, "it must have 10 to 500 characters")
	}
	if strings.ContainsFunc(key, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) || r > unicode.MaxASCII }) {
		problems = append(problems, "it must not contain spaces, control characters or non-ASCII characters")
	}
	if problems == nil {
		return nil
	}
	return fault.New(fault.Malformed, "invalid_api_key", "The api_key cannot be accepted: %s.", strings.Join(problems, ", and "))
}

// record writes the audit entry, and invalidates the cached keys on every node.
func (s *Service) record(tx txn.Tx, who authz.Caller, action string, r *Row) error {
	tx.AfterCommit(func() { s.OnChange(who.TenantID) })
	e := audit.Entry{Action: action, TargetType: "llm_credential", TargetID: r.ProviderID}
	if r.Origin != "" {
		details := struct {
			Shared   bool   `json:"shared"`
			Endpoint string `json:"endpoint,omitzero"` // unless it is the operator's
		}{Shared: r.Shared, Endpoint: r.Endpoint}
		if r.Origin == model.OriginPlatform {
			details.Endpoint = ""
		}
		var err error
		if e.Details, err = json.Marshal(details); err != nil {
			return err
		}
	}
	return audit.Write(s.Audit, tx, who, e)
}

type providerIn struct {
	Provider string `path:"provider" doc:"A listed provider, or the name of the company's own."`
}

type deleted struct {
	_ struct{} `json:"-" name:"LlmCredentialDeleted"`

	Deleted    bool   `json:"deleted" required:"true"`
	ProviderID string `json:"provider_id" required:"true"`
}

func (s *Service) remove(ctx context.Context, who authz.Caller, in *providerIn) (deleted, error) {
	out := deleted{Deleted: true, ProviderID: in.Provider}
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		found, err := s.Store.DeleteTx(tx, who.TenantID, in.Provider)
		if err != nil {
			return err
		}
		if !found {
			return fault.NewNotFound("credential")
		}
		if err := s.record(tx, who, "llm_credentials.deleted", &Row{ProviderID: in.Provider}); err != nil {
			return err
		}
		return txn.Answer(tx, out)
	})
	if err != nil {
		return deleted{}, err
	}
	return out, nil
}

// Tested is the outcome of a test.
type Tested struct {
	_ struct{} `json:"-" name:"LlmCredentialTest"`

	Success bool   `json:"success" required:"true"`
	Message string `json:"message,omitzero" doc:"What is wrong, if anything."`
}

func (s *Service) test(ctx context.Context, who authz.Caller, in *providerIn) (Tested, error) {
	c, err := s.stored(ctx, who.TenantID, in.Provider)
	if err != nil {
		return Tested{}, err
	}
	if c == nil {
		if _, _, err := s.endpointOf(in.Provider, "", nil); err != nil {
			return Tested{}, err
		}
		return Tested{Message: "No key for this provider is stored in this company."}, nil
	}
	if c.Origin == model.OriginPlatform && !s.Catalogue.At(c.Name, c.Endpoint) {
		return Tested{Message: "The provider's endpoint has changed since the key was stored; store it again."}, nil
	}
	to := s.Catalogue.WithKey(c)
	if to.Guarded {
		to.TenantID = who.TenantID
	}
	_, err = s.Lister.ListModels(ctx, to)
	if e, ok := errors.AsType[*model.Error](err); ok {
		return Tested{Message: e.Detail}, nil
	}
	return Tested{Success: err == nil}, err
}

// stored returns a key from the database, nil if there is none.
func (s *Service) stored(ctx context.Context, tenant, provider string) (*model.Credential, error) {
	all, err := s.load(ctx, tenant)
	return all[provider], err
}
