// Package credential keeps the keys that tenants have of model providers, and
// hands them to the calls that may carry them (behaviours.md section 31).
//
// A key is sealed together with its tenant, its provider and the endpoint that
// it goes to; no operation shows it again. Every call of a model asks for keys,
// so what a tenant keeps is held in memory: for a few seconds, and on this node
// until it is changed.
package providerkey

import (
	"context"
	"regexp"
	"slices"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/model"
)

const (
	// maxKeys is how many credentials a tenant may keep.
	maxKeys = 100

	minKey, maxKey = 10, 500 // characters (behaviours.md section 31)
)

// Row is a credential as it is stored.
type Row struct {
	TenantID   string
	ProviderID string
	Endpoint   string // as model.NormalEndpoint gives it
	Origin     string // one of model's Origin constants
	Shared     bool
	Sealed     []byte
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// Store keeps credentials.
type Store interface {
	// List gives what a tenant keeps, by provider.
	List(ctx context.Context, tenant string) ([]Row, error)
	// LockTx gives one of them, locked until commit; nil: there is none.
	LockTx(tx txn.Tx, tenant, provider string) (*Row, error)
	// CountTx counts a tenant's credentials. Who stores a new one waits for others
	// who do.
	CountTx(tx txn.Tx, tenant string) (int, error)
	// PutTx stores one, over the one of the same tenant and provider.
	PutTx(tx txn.Tx, r *Row) error
	// DeleteTx says whether there was one.
	DeleteTx(tx txn.Tx, tenant, provider string) (bool, error)
}

// Deps are what the service stands on.
type Deps struct {
	Store     Store
	Writer    txn.Writer
	Clock     clock.Clock
	Box       *secret.Box
	Audit     audit.Recorder
	Catalogue *model.Catalogue
	Lister    model.Lister
	// CheckURL checks the address of an endpoint that a tenant names;
	// outbound.CheckURL.
	CheckURL func(string) error
	// OnChange tells every node, this one included, that a tenant's credentials
	// are others now: they call Hear.
	OnChange func(tenant string)
	// Elapsed is how long the process has run, by a clock that nobody sets [the
	// system's].
	Elapsed func() time.Duration
}

// Service keeps credentials. It implements model.Credentials.
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

// All gives what a tenant keeps, by provider. It is not to be changed.
func (s *Service) All(ctx context.Context, tenant string) (map[string]*model.Credential, error) {
	return s.cache.get(ctx, tenant)
}

// Invalidate takes in that a tenant's credentials are others now.
func (s *Service) Invalidate(tenant string) { s.cache.drop(tenant) }

// sealedFor binds a sealed key to where it belongs. None of the parts has a
// zero byte in it.
func sealedFor(tenant, provider, endpoint string) string {
	return "llm_credentials\x00" + tenant + "\x00" + provider + "\x00" + endpoint
}

// load reads what a tenant keeps. What cannot be opened, because it was sealed
// with another key or was moved, counts as not there.
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
		all[r.ProviderID] = &model.Credential{
			Name: r.ProviderID, Endpoint: r.Endpoint, Origin: r.Origin, Shared: r.Shared, Key: secret.New(string(key)),
		}
	}
	return all, nil
}

var (
	ownName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	// reserved are names that mean something else where models are named.
	reserved = []string{model.DefaultProvider, model.Builtin, model.Custom, model.OpenAICompat, "agent", "team"}
)

// endpointOf says where a key of a provider goes, and whose idea that was.
// asked is the endpoint that the tenant names, "" for none; before is what it
// keeps already. Errors: fault.Malformed for a provider that nobody knows,
// fault.Invalid for an endpoint that cannot be.
func (s *Service) endpointOf(provider, asked string, before *Row) (endpoint, origin string, err error) {
	own := before != nil && before.Origin == model.OriginOwn
	to, platform := s.Catalogue.Endpoint(provider)
	known, public := model.PublicProvider(provider)
	switch {
	case asked != "":
		return s.ownEndpoint(provider, asked, !own && (platform || public))
	case own:
		return before.Endpoint, model.OriginOwn, nil
	case platform:
		if endpoint, ok := model.NormalEndpoint(to.BaseURL); ok {
			return endpoint, model.OriginPlatform, nil
		}
		return "", "", fault.New(fault.Malformed, "provider_takes_no_key", "The provider %q takes no keys of companies on this deployment.", provider)
	case public:
		return known.Endpoint, model.OriginPublic, nil
	}
	return "", "", unknownProvider(provider)
}

func (s *Service) ownEndpoint(provider, asked string, taken bool) (endpoint, origin string, err error) {
	refuse := func(message string) (string, string, error) {
		return "", "", fault.BadFields(fault.Field{Field: "endpoint_url", Message: message})
	}
	if !ownName.MatchString(provider) || slices.Contains(reserved, provider) {
		return "", "", fault.New(fault.Malformed, "unknown_provider", "%q cannot be the name of a provider of your own: it has 1 to 64 of a-z, 0-9, '.', '_' and '-', "+
			"begins with a letter or digit, and is none of %v.", provider, reserved)
	}
	if taken {
		return refuse("this provider has an endpoint already: leave endpoint_url out, or choose another name for your own")
	}
	if err := s.CheckURL(asked); err != nil {
		return refuse(fault.From(err).Detail)
	}
	endpoint, ok := model.NormalEndpoint(asked)
	if !ok {
		return refuse("it must be like https://host/v1: without user name, query, fragment or escapes, and with nothing in its path that leads elsewhere")
	}
	return endpoint, model.OriginOwn, nil
}

func unknownProvider(provider string) error {
	return fault.New(fault.Malformed, "unknown_provider", "There is no provider %q. GET /api/v1/llm-credentials/providers lists those that there are; "+
		"for one of your own send its endpoint_url.", provider)
}
