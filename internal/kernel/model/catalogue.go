package model

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/secret"
)

// Provider is an endpoint that the operator configured, with the models that
// are listed for it. Other models of the endpoint can be named too, but their
// price and context window are not known.
type Provider struct {
	Name    string        `json:"name"`         // lower-case letters, digits, ".", "_", "-"
	Title   string        `json:"display_name"` // for people; "": Name
	BaseURL string        `json:"base_url"`     // http or https, usually ending in /v1
	APIKey  secret.String `json:"api_key"`
	Wire    Wire          `json:"wire"` // "": see WireAt
	Models  []Offer       `json:"models"`

	// Allowed are the only models that can be called; empty: all of the endpoint's.
	Allowed []string `json:"model_allowlist"`
	// NeedsKey has calls without any key refused before they are made.
	NeedsKey bool `json:"requires_api_key"`
	// Capabilities are those of the models that are not listed; see ParseCapabilities.
	Capabilities jsontext.Value `json:"default_capabilities"`
	// Screened providers are called through the guarded client: their address was chosen
	// while the program ran.
	Screened bool `json:"-"`

	Access // beside APIKey
	Limits // of APIKey
}

// Offer is a listed model of a provider.
type Offer struct {
	ID            string `json:"id"`
	ContextWindow int    `json:"context_window"` // tokens; 0: unknown
	PriceFields
	// Capabilities has the keys of ParseCapabilities, with context_window in
	// place of max_context_tokens.
	Capabilities jsontext.Value `json:"capabilities"`

	Facts
}

// Facts are what an operator may publish about a model for people who choose
// one. Of these, a call is changed by MaxOutput, and refused where Vision is false and it
// has images. What is left out is not known.
type Facts struct {
	Title     string   `json:"display_name"`
	Tier      string   `json:"tier"`              // a word of the operator's own, as in "small"
	MaxOutput int      `json:"max_output_tokens"` // 0: unknown
	ToolCalls *bool    `json:"supports_tool_calls"`
	Streaming *bool    `json:"supports_streaming"`
	JSONMode  *bool    `json:"supports_json_mode"`
	Vision    *bool    `json:"supports_vision"`
	Modality  Modality `json:"modality"` // "": image if the model has the capability images, else chat
}

// Modality is the kind of input and output of a model.
type Modality string

// The modalities.
const (
	Chat         Modality = "chat"
	SpeechToText Modality = "stt"
	TextToSpeech Modality = "tts"
	Pictures     Modality = "image"
	Vectors      Modality = "embedding"
)

var modalities = []Modality{Chat, SpeechToText, TextToSpeech, Pictures, Vectors}

// Entry is a line of the catalogue.
type Entry struct {
	Ref      string // <provider>/<model>
	Provider string
	Model    string
	Context  int
	Price    *Price

	Capabilities Capabilities
	Facts        Facts // Modality is set
}

// listing holds the operator's providers as they are at a time. It does not change.
type listing struct {
	providers map[string]*provider
	names     []string // of the providers, in the order of the configuration
	entries   []Entry
	fallback  string // the default model's ref
	spare     string // the ref of the model that is asked if another does not answer
	prices    *PriceList
	overrides map[string]*Price // by the models' refs
	disabled  []string          // names of providers that are not there, but could be
}

type provider struct {
	Provider
	offers map[string]Entry
	others Capabilities // of models that are not listed
	public string       // the public provider whose endpoint this is; "": none
	normal string       // NormalizeEndpoint of BaseURL; "": it has none, and no tenant can store a key for it
}

// newListing checks the providers; see NewCatalogue.
func newListing(o Offering) (*listing, error) {
	c := &listing{
		providers: make(map[string]*provider, len(o.Providers)), prices: o.Prices, overrides: map[string]*Price{}, disabled: o.Disabled,
	}
	for _, p := range o.Providers {
		if err := p.check(); err != nil {
			return nil, err
		}
		if c.providers[p.Name] != nil {
			return nil, fmt.Errorf("the model provider %q is there twice", p.Name)
		}
		c.add(p)
	}
	switch {
	case o.Default == "" && len(c.entries) > 0:
		o.Default = c.entries[0].Ref
	case o.Default == "" || o.Default == EchoRef:
	default:
		name, model := c.split(o.Default)
		p := c.providers[name]
		if p == nil {
			return nil, fmt.Errorf("the default model %q belongs to no configured provider: %s", o.Default, c.configured())
		}
		if _, listed := p.offers[model]; !listed {
			c.list(p, Offer{ID: model})
		}
	}
	c.fallback, c.spare = o.Default, o.Fallback
	for ref, fields := range o.Overrides {
		if err := fields.Check(); err != nil {
			return nil, fmt.Errorf("the price of %q: %w", ref, err)
		}
		name, model := c.split(ref)
		c.overrides[name+"/"+model] = fields.price()
	}
	c.usePrices()
	if c.spare != "" {
		if _, err := c.lookup(c.spare, ""); err != nil {
			return nil, fmt.Errorf("the fallback model: %w", err)
		}
	}
	return c, nil
}

func (c *listing) add(config Provider) {
	p := &provider{Provider: config, offers: make(map[string]Entry, len(config.Models))}
	p.BaseURL = trimBase(config.BaseURL)
	p.normal, _ = NormalizeEndpoint(config.BaseURL)
	p.Wire = cmp.Or(config.Wire, WireAt(config.Name, config.BaseURL))
	p.public = publicAt(p.normal)
	p.others = ParseCapabilities(config.Capabilities)
	p.others.Context = 0
	c.providers[p.Name] = p
	c.names = append(c.names, p.Name)
	for _, o := range config.Models {
		c.list(p, o)
	}
}

func (c *listing) list(p *provider, o Offer) {
	e := Entry{Ref: p.Name + "/" + o.ID, Provider: p.Name, Model: o.ID, Context: o.ContextWindow, Facts: o.Facts}
	e.Price = o.price()
	e.Capabilities = ParseCapabilities(o.Capabilities)
	e.Capabilities.Context = 0
	if v := e.Facts.Vision; v != nil && e.Capabilities.Inputs.Images == nil {
		e.Capabilities.Inputs.Images = &Medium{None: !*v}
	}
	if e.Facts.Modality == "" {
		e.Facts.Modality = Chat
		if e.Capabilities.Images {
			e.Facts.Modality = Pictures
		}
	}
	p.offers[o.ID] = e
	c.entries = append(c.entries, e)
}

// usePrices sets what the price list and the operator's overrides have.
func (c *listing) usePrices() {
	for i := range c.entries {
		e := &c.entries[i]
		p := c.providers[e.Provider]
		t := Target{Price: e.Price, Context: e.Context, MaxOutput: e.Facts.MaxOutput, Capabilities: e.Capabilities}
		if known, ok := c.prices.Lookup(p.public, e.Model); ok {
			known.apply(&t)
		}
		if price := c.overrides[e.Ref]; price != nil {
			t.Price = price
		}
		e.Price, e.Context, e.Facts.MaxOutput, e.Capabilities = t.Price, t.Context, t.MaxOutput, t.Capabilities
		if known := e.Capabilities.Inputs.Images; known != nil && e.Facts.Vision == nil {
			e.Facts.Vision = new(!known.None)
		}
		p.offers[e.Model] = *e
	}
}

// complete sets what the price list has of a model at a public provider's endpoint.
func (c *listing) complete(t *Target, public string) {
	if known, ok := c.prices.Lookup(public, t.Model); ok {
		known.apply(t)
	}
}

// List returns the listed models in the order of the configuration.
func (c *listing) List() []Entry { return slices.Clone(c.entries) }

// Served is the public part of a provider of the catalogue.
type Served struct {
	Name   string
	Title  string
	HasKey bool   // the operator has a key of it
	Public string // its endpoint, if it is that of the public provider of the same name; "": not public
}

// Providers returns the providers in the order of the configuration.
func (c *listing) Providers() []Served {
	all := make([]Served, 0, len(c.names))
	for _, name := range c.names {
		p := c.providers[name]
		s := Served{Name: name, Title: cmp.Or(p.Title, name), HasKey: !p.APIKey.Empty()}
		if known, ok := PublicProvider(name); ok {
			s.Title = cmp.Or(p.Title, known.Name)
			if SameEndpoint(known.Endpoint, p.BaseURL) {
				s.Public = known.Endpoint
			}
		}
		all = append(all, s)
	}
	return all
}

// Endpoint returns the target of a provider, with the operator's key and without
// a model; false if there is no such provider.
func (c *listing) Endpoint(name string) (Target, bool) {
	p := c.providers[name]
	if p == nil {
		return Target{}, false
	}
	return p.target(), true
}

func (p *provider) target() Target {
	return Target{
		Provider: p.Name, BaseURL: p.BaseURL, APIKey: p.APIKey, Wire: p.Wire, Access: p.Access, Limits: p.Limits,
		Screened: p.Screened, NeedsKey: p.NeedsKey,
	}
}

// At reports whether there is a provider of that name and its endpoint is this
// one, in the form that NormalizeEndpoint returns.
func (c *listing) At(name, endpoint string) bool {
	p := c.providers[name]
	return p != nil && p.normal != "" && p.normal == endpoint
}

// lists reports whether the operator lists a model under this name without a
// prefix: as one of the default provider.
func (c *listing) lists(ref string) bool {
	p := c.providers[DefaultProvider]
	if p == nil {
		return false
	}
	_, listed := p.offers[ref]
	return listed
}

// CodeProviderMissing is the code of a model whose remembered provider is gone.
const CodeProviderMissing = "model_provider_missing"

// ProviderOf returns the provider that serves a model by its ref; "" if there is none.
func (c *listing) ProviderOf(ref string) string {
	name, _ := c.split(ref)
	if ref == "" || c.providers[name] == nil {
		return ""
	}
	return name
}

// lookup is Lookup for a model that is served by a remembered provider, if any, and by
// no other.
func (c *listing) lookup(ref, remembered string) (Target, error) {
	if ref == "" {
		ref = c.fallback
	}
	if ref == EchoRef {
		return echoTarget(), nil
	}
	if remembered != "" && ref != "" && c.providers[remembered] == nil {
		return Target{}, &Error{Code: CodeProviderMissing, Detail: fmt.Sprintf(
			"The model %q was served by the provider %q, which the operator removed: name another model, or ask the operator for the provider.",
			ref, remembered)}
	}
	if len(c.providers) == 0 {
		return Target{}, notConfigured("No model is configured: set AGENTD_MODEL_BASE_URL and AGENTD_MODEL, "+
			"or give the agent a model with an endpoint_url; "+
			"the provider %s with the model_ref %s works without a model.", Custom, EchoRef)
	}
	if ref == "" {
		return Target{}, notConfigured("The agent names no model and there is no default: set model_ref, or AGENTD_MODEL for everybody.")
	}
	name, model := c.split(ref)
	if remembered != "" && name != remembered {
		name, model = remembered, strings.TrimPrefix(ref, remembered+"/")
	}
	p := c.providers[name]
	if slices.Contains(c.disabled, name) {
		return Target{}, notConfigured("The operator disabled the provider %q of the model %q: name another model.", name, ref)
	}
	if p == nil {
		return Target{}, notConfigured("The model %q names none of the configured providers, "+
			"and there is no provider %q (AGENTD_MODEL_BASE_URL): %s.", ref, DefaultProvider, c.configured())
	}
	if model == "" {
		return Target{}, notConfigured("The model_ref %q names a provider but no model; write %s/<model>.", ref, name)
	}
	if len(p.Allowed) > 0 && !slices.Contains(p.Allowed, model) {
		return Target{}, notConfigured("The provider %q serves no model %q here: the operator allows %s.",
			name, model, strings.Join(p.Allowed, ", "))
	}
	t := p.target()
	t.Model, t.Capabilities = model, p.others
	if e, ok := p.offers[model]; ok {
		t.Price, t.Context, t.MaxOutput, t.Capabilities = e.Price, e.Context, e.Facts.MaxOutput, e.Capabilities
	}
	if price := c.overrides[name+"/"+model]; price != nil {
		t.Price = price
	}
	c.complete(&t, p.public)
	return t, nil
}

// split splits a ref into provider and model. A model's own name may contain
// slashes, so a first segment that is not a provider belongs to the model.
func (c *listing) split(ref string) (name, model string) {
	if name, model, ok := strings.Cut(ref, "/"); ok && (c.providers[name] != nil || slices.Contains(c.disabled, name)) {
		return name, model
	}
	return DefaultProvider, ref
}

// configured returns the list of providers for a sentence.
func (c *listing) configured() string {
	if len(c.providers) == 0 {
		return "there is none"
	}
	return "there is " + strings.Join(slices.Sorted(maps.Keys(c.providers)), ", ")
}

func (p Provider) check() error {
	if p.Name == "" || strings.Trim(p.Name, "abcdefghijklmnopqrstuvwxyz0123456789._-") != "" {
		return fmt.Errorf("the model provider's name %q is not made of lower-case letters, digits, dots, underscores and hyphens", p.Name)
	}
	if p.Name == Builtin {
		return fmt.Errorf("the model provider's name %q is taken", p.Name)
	}
	u, err := url.Parse(p.BaseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("the model provider %q needs a base_url like https://host/v1, without user name, query or fragment", p.Name)
	}
	if err := p.Access.Check(cmp.Or(p.Wire, WireAt(p.Name, p.BaseURL))); err != nil {
		return fmt.Errorf("the model provider %q: %w", p.Name, err)
	}
	if wrong := CheckLimit(p.MaxConcurrency, MaxMaxConcurrency); wrong != "" {
		return fmt.Errorf("the model provider %q: max_concurrency %s", p.Name, wrong)
	}
	if wrong := CheckLimit(p.TokensPerMinute, MaxTokensPerMinute); wrong != "" {
		return fmt.Errorf("the model provider %q: tokens_per_minute %s", p.Name, wrong)
	}
	if len(p.Capabilities) > 0 && p.Capabilities.Kind() != '{' {
		return fmt.Errorf("the model provider %q: default_capabilities is not an object", p.Name)
	}
	seen := map[string]bool{}
	for _, o := range p.Models {
		if err := o.Check(); err != nil {
			return fmt.Errorf("the model provider %q: %w", p.Name, err)
		}
		if seen[o.ID] {
			return fmt.Errorf("the model provider %q lists the model %q twice", p.Name, o.ID)
		}
		seen[o.ID] = true
	}
	return nil
}

// Check returns what is wrong with the model, as a sentence.
func (o Offer) Check() error {
	switch {
	case o.ID == "":
		return fmt.Errorf("a model has no id")
	case o.MaxOutput < 0:
		return fmt.Errorf("the model %q: max_output_tokens is negative", o.ID)
	case o.Modality != "" && !slices.Contains(modalities, o.Modality):
		return fmt.Errorf("the model %q: modality is none of chat, stt, tts, image, embedding", o.ID)
	case o.ContextWindow < 0:
		return fmt.Errorf("the model %q: context_window is negative", o.ID)
	case len(o.Capabilities) > 0 && o.Capabilities.Kind() != '{':
		return fmt.Errorf("the model %q: capabilities is not an object", o.ID)
	}
	if err := o.PriceFields.Check(); err != nil {
		return fmt.Errorf("the model %q: %w", o.ID, err)
	}
	return nil
}
