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
// one. Nothing here changes a call. What is left out is not known.
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

// Catalogue holds the operator's providers. It does not change.
type Catalogue struct {
	providers map[string]*provider
	names     []string // of the providers, in the order of the configuration
	entries   []Entry
	fallback  string // the default model's ref
	prices    *PriceList
}

type provider struct {
	Provider
	offers map[string]Entry
	public string // the public provider whose endpoint this is; "": none
	normal string // NormalizeEndpoint of BaseURL; "": it has none, and no tenant can store a key for it
}

// NewCatalogue checks the providers. defaultRef is the model of agents that
// name none (AGENTD_MODEL): <provider>/<model> or a bare name of the provider
// "default"; empty: the first listed model.
func NewCatalogue(providers []Provider, defaultRef string) (*Catalogue, error) {
	c := &Catalogue{providers: make(map[string]*provider, len(providers))}
	for _, p := range providers {
		if err := p.check(); err != nil {
			return nil, err
		}
		if c.providers[p.Name] != nil {
			return nil, fmt.Errorf("the model provider %q is there twice", p.Name)
		}
		c.add(p)
	}
	switch {
	case defaultRef == "" && len(c.entries) > 0:
		defaultRef = c.entries[0].Ref
	case defaultRef == "" || defaultRef == EchoRef:
	default:
		name, model := c.split(defaultRef)
		p := c.providers[name]
		if p == nil {
			return nil, fmt.Errorf("the default model %q belongs to no configured provider: %s", defaultRef, c.configured())
		}
		if _, listed := p.offers[model]; !listed {
			c.list(p, Offer{ID: model})
		}
	}
	c.fallback = defaultRef
	return c, nil
}

func (c *Catalogue) add(config Provider) {
	p := &provider{Provider: config, offers: make(map[string]Entry, len(config.Models))}
	p.BaseURL = trimBase(config.BaseURL)
	p.normal, _ = NormalizeEndpoint(config.BaseURL)
	p.Wire = cmp.Or(config.Wire, WireAt(config.Name, config.BaseURL))
	p.public = publicAt(p.normal)
	c.providers[p.Name] = p
	c.names = append(c.names, p.Name)
	for _, o := range config.Models {
		c.list(p, o)
	}
}

func (c *Catalogue) list(p *provider, o Offer) {
	e := Entry{Ref: p.Name + "/" + o.ID, Provider: p.Name, Model: o.ID, Context: o.ContextWindow, Facts: o.Facts}
	e.Price = o.price()
	e.Capabilities = ParseCapabilities(o.Capabilities)
	e.Capabilities.Context = 0
	if e.Facts.Modality == "" {
		e.Facts.Modality = Chat
		if e.Capabilities.Images {
			e.Facts.Modality = Pictures
		}
	}
	p.offers[o.ID] = e
	c.entries = append(c.entries, e)
}

// UsePrices sets the list for what the operator's own does not say. It is called
// before the catalogue is used.
func (c *Catalogue) UsePrices(l *PriceList) {
	c.prices = l
	for i := range c.entries {
		e := &c.entries[i]
		p := c.providers[e.Provider]
		known, ok := l.Lookup(p.public, e.Model)
		if !ok {
			continue
		}
		t := Target{Price: e.Price, Context: e.Context, MaxOutput: e.Facts.MaxOutput}
		known.apply(&t)
		e.Price, e.Context, e.Facts.MaxOutput = t.Price, t.Context, t.MaxOutput
		p.offers[e.Model] = *e
	}
}

// complete sets what the price list has of a model at a public provider's endpoint.
func (c *Catalogue) complete(t *Target, public string) {
	if known, ok := c.prices.Lookup(public, t.Model); ok {
		known.apply(t)
	}
}

// List returns the listed models in the order of the configuration.
func (c *Catalogue) List() []Entry { return slices.Clone(c.entries) }

// Served is the public part of a provider of the catalogue.
type Served struct {
	Name   string
	Title  string
	HasKey bool   // the operator has a key of it
	Public string // its endpoint, if it is that of the public provider of the same name; "": not public
}

// Providers returns the providers in the order of the configuration.
func (c *Catalogue) Providers() []Served {
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
func (c *Catalogue) Endpoint(name string) (Target, bool) {
	p := c.providers[name]
	if p == nil {
		return Target{}, false
	}
	return p.target(), true
}

func (p *provider) target() Target {
	return Target{Provider: p.Name, BaseURL: p.BaseURL, APIKey: p.APIKey, Wire: p.Wire, Access: p.Access, Limits: p.Limits}
}

// At reports whether there is a provider of that name and its endpoint is this
// one, in the form that NormalizeEndpoint returns.
func (c *Catalogue) At(name, endpoint string) bool {
	p := c.providers[name]
	return p != nil && p.normal != "" && p.normal == endpoint
}

// lists reports whether the operator lists a model under this name without a
// prefix: as one of the default provider.
func (c *Catalogue) lists(ref string) bool {
	p := c.providers[DefaultProvider]
	if p == nil {
		return false
	}
	_, listed := p.offers[ref]
	return listed
}

// Default returns the ref of the model of agents that name none; "" if there is
// no model at all.
func (c *Catalogue) Default() string { return c.fallback }

// Lookup finds a model by its ref; "" is the default model. Errors: *Error
// with the code provider_not_configured.
func (c *Catalogue) Lookup(ref string) (Target, error) { return c.lookup(ref, "") }

// CodeProviderMissing is the code of a model whose remembered provider is gone.
const CodeProviderMissing = "model_provider_missing"

// ProviderOf returns the provider that serves a model by its ref; "" if there is none.
func (c *Catalogue) ProviderOf(ref string) string {
	name, _ := c.split(ref)
	if ref == "" || c.providers[name] == nil {
		return ""
	}
	return name
}

// lookup is Lookup for a model that is served by a remembered provider, if any, and by
// no other.
func (c *Catalogue) lookup(ref, remembered string) (Target, error) {
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
	if p == nil {
		return Target{}, notConfigured("The model %q names none of the configured providers, "+
			"and there is no provider %q (AGENTD_MODEL_BASE_URL): %s.", ref, DefaultProvider, c.configured())
	}
	if model == "" {
		return Target{}, notConfigured("The model_ref %q names a provider but no model; write %s/<model>.", ref, name)
	}
	t := p.target()
	t.Model = model
	if e, ok := p.offers[model]; ok {
		t.Price, t.Context, t.MaxOutput, t.Capabilities = e.Price, e.Context, e.Facts.MaxOutput, e.Capabilities
	}
	c.complete(&t, p.public)
	return t, nil
}

// split splits a ref into provider and model. A model's own name may contain
// slashes, so a first segment that is not a provider belongs to the model.
func (c *Catalogue) split(ref string) (name, model string) {
	if name, model, ok := strings.Cut(ref, "/"); ok && c.providers[name] != nil {
		return name, model
	}
	return DefaultProvider, ref
}

// configured returns the list of providers for a sentence.
func (c *Catalogue) configured() string {
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
	if err := p.Access.Check(p.Wire); err != nil {
		return fmt.Errorf("the model provider %q: %w", p.Name, err)
	}
	if wrong := CheckLimit(p.MaxConcurrency, MaxMaxConcurrency); wrong != "" {
		return fmt.Errorf("the model provider %q: max_concurrency %s", p.Name, wrong)
	}
	if wrong := CheckLimit(p.TokensPerMinute, MaxTokensPerMinute); wrong != "" {
		return fmt.Errorf("the model provider %q: tokens_per_minute %s", p.Name, wrong)
	}
	seen := map[string]bool{}
	for _, o := range p.Models {
		if err := o.check(); err != nil {
			return fmt.Errorf("the model provider %q: %w", p.Name, err)
		}
		if seen[o.ID] {
			return fmt.Errorf("the model provider %q lists the model %q twice", p.Name, o.ID)
		}
		seen[o.ID] = true
	}
	return nil
}

func (o Offer) check() error {
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
	if err := o.PriceFields.check(); err != nil {
		return fmt.Errorf("the model %q: %w", o.ID, err)
	}
	return nil
}
