// Package providerkey stores the keys of tenants for model providers, and returns
// them to the calls that may carry them.
//
// A key is sealed together with its tenant, its provider and the endpoint that it
// goes to; no operation shows it again. Every model call needs keys, so those of a
// tenant are cached in memory for a few seconds, or until this node changes them.
package providerkey

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/egress"
	"agentd/internal/kernel/model"
)

const (
	// maxKeys is how many keys a tenant may store.
	maxKeys = 100

	minKey, maxKey = 10, 500 // characters
)

// Row is a stored key.
type Row struct {
	TenantID   string
	ProviderID string
	Endpoint   string // normalized by model.NormalizeEndpoint
	Origin     string // one of model's Origin constants
	Shared     bool
	Sealed     []byte
	Wire       model.Wire // of an own provider; "": that of its endpoint
	Access     string     // JSON of Access; "": nothing
	Limits     model.Limits
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// Store is the port to stored keys.
type Store interface {
	// List returns the keys of a tenant, ordered by provider.
	List(ctx context.Context, tenant string) ([]Row, error)
	// LockTx returns a key and locks it until commit; nil if there is none.
	LockTx(tx txn.Tx, tenant, provider string) (*Row, error)
	// CountTx counts a tenant's keys, and blocks other transactions that count them.
	CountTx(tx txn.Tx, tenant string) (int, error)
	// PutTx stores a key, replacing that of the same tenant and provider.
	PutTx(tx txn.Tx, r *Row) error
	// DeleteTx reports whether there was a key.
	DeleteTx(tx txn.Tx, tenant, provider string) (bool, error)
}

// Deps holds what the service depends on.
type Deps struct {
	Store     Store
	Writer    txn.Writer
	Clock     clock.Clock
	Box       *secret.Box
	Audit     audit.Recorder
	Catalogue *model.Catalogue
	Lister    model.Lister
	// CheckURL validates the URL of a tenant's endpoint; outbound.CheckURL.
	CheckURL func(string) error
	Egress   egress.CheckFunc // checks what the URL leads to, before it is stored
	// OnChange notifies every node, this one included, of a change to a tenant's
	// keys: they call Invalidate.
	OnChange func(tenant string)
	// Elapsed returns how long the process has run, by a monotonic clock [the
	// system's].
	Elapsed func() time.Duration
}

// Service stores keys. It implements model.Credentials.
type Service struct {
	Deps

	cache *keyCache
}

var _ model.Credentials = (*Service)(nil)

// New makes the service.
func New(d Deps) *Service {
	s := &Service{Deps: d}
	if d.Elapsed == nil {
		began := time.Now()
		d.Elapsed = func() time.Duration { return time.Since(began) }
	}
	s.cache = newKeyCache(s.load, d.Elapsed)
	return s
}

// Kept implements model.Credentials.
func (s *Service) Kept(ctx context.Context, tenant, name string) (*model.Credential, error) {
	all, err := s.cache.get(ctx, tenant)
	return all[name], err
}

// All returns the keys of a tenant by provider. The map must not be changed.
func (s *Service) All(ctx context.Context, tenant string) (map[string]*model.Credential, error) {
	return s.cache.get(ctx, tenant)
}

// Invalidate drops the cached keys of a tenant.
func (s *Service) Invalidate(tenant string) { s.cache.drop(tenant) }

// sealedFor returns the context that binds a sealed key to its owner and endpoint.
// None of the parts contains a zero byte.
func sealedFor(tenant, provider, endpoint string) string {
	return "llm_credentials\x00" + tenant + "\x00" + provider + "\x00" + endpoint
}

// load reads the keys of a tenant. One that cannot be opened, because it was sealed
// with another key or was moved, counts as absent.
func (s *Service) load(ctx context.Context, tenant string) (map[string]*model.Credential, error) {
	rows, err := s.Store.List(ctx, tenant)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	all := make(map[string]*model.Credential, len(rows))
	for i := range rows {
		r := &rows[i]
		key, err := s.Box.Open(r.Sealed, sealedFor(r.TenantID, r.ProviderID, r.Endpoint))
		if err != nil || r.TenantID != tenant {
			continue
		}
		c := &model.Credential{
			Name: r.ProviderID, Endpoint: r.Endpoint, Origin: r.Origin, Shared: r.Shared, Wire: r.Wire, Key: secret.New(string(key)),
			Limits: r.Limits,
		}
		if r.Access != "" {
			var a Access
			if json.Unmarshal([]byte(r.Access), &a) != nil {
				continue
			}
			c.Access, c.Key = a.with(c.Key)
		}
		all[r.ProviderID] = c
	}
	return all, nil
}

var (
	ownName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	// reserved are names with another meaning in the names of models.
	reserved = []string{model.DefaultProvider, model.Builtin, model.Custom, model.OpenAICompat, "agent", "team"}
)

// endpointOf returns the endpoint that a provider's key goes to, and who chose it.
// requested is the endpoint in the request, "" for none; before is the stored key.
// Errors: fault.Malformed for an unknown provider, fault.Invalid for an endpoint
// that is not allowed.
func (s *Service) endpointOf(provider, requested string, before *Row) (endpoint, origin string, err error) {
	own := before != nil && before.Origin == model.OriginOwn
	to, platform := s.Catalogue.Endpoint(provider)
	known, public := model.PublicProvider(provider)
	switch {
	case requested != "":
		return s.ownEndpoint(provider, requested, !own && (platform || public))
	case own:
		return before.Endpoint, model.OriginOwn, nil
	case platform:
		if endpoint, ok := model.NormalizeEndpoint(to.BaseURL); ok {
			return endpoint, model.OriginPlatform, nil
		}
		return "", "", fault.New(fault.Malformed, "provider_takes_no_key",
			"The provider %q does not accept keys of companies on this deployment.", provider)
	case public:
		return known.Endpoint, model.OriginPublic, nil
	}
	return "", "", unknownProvider(provider)
}

func (s *Service) ownEndpoint(provider, requested string, taken bool) (endpoint, origin string, err error) {
	refuse := func(message string) (string, string, error) {
		return "", "", fault.BadFields(fault.Field{Field: "endpoint_url", Message: message})
	}
	if !ownName.MatchString(provider) || slices.Contains(reserved, provider) {
		return "", "", fault.New(fault.Malformed, "unknown_provider",
			"%q is not a valid name for your own provider: it must have 1 to 64 characters of a-z, 0-9, '.', '_' and '-', "+
				"begin with a letter or digit, and not be one of %v.", provider, reserved)
	}
	if taken {
		return refuse("this provider already has an endpoint: omit endpoint_url, or choose another name for your own provider")
	}
	if err := s.CheckURL(requested); err != nil {
		return refuse(fault.From(err).Detail)
	}
	endpoint, ok := model.NormalizeEndpoint(requested)
	if !ok {
		return refuse("must be a URL like https://host/v1, without user name, query, fragment, escapes or dot segments in its path")
	}
	return endpoint, model.OriginOwn, nil
}

func unknownProvider(provider string) error {
	return fault.New(fault.Malformed, "unknown_provider", "Unknown provider %q. GET /api/v1/llm-credentials/providers lists the known ones; "+
		"to add your own, send its endpoint_url.", provider)
}
