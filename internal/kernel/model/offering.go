package model

import "sync/atomic"

// Offering is what a catalogue has.
type Offering struct {
	Providers []Provider
	// Disabled are the names of providers whose models are refused, rather than looked for
	// at the provider "default".
	Disabled []string
	// Default is the model of agents that name none (AGENTD_MODEL): <provider>/<model> or a
	// bare name of the provider "default"; empty: the first listed model.
	Default string
	// Fallback is the model that proxied calls ask if the requested one does not answer, as
	// <provider>/<model>; "": none.
	Fallback string
	// Prices are used for what the providers' models say nothing about; nil: none.
	Prices *PriceList
	// Overrides are prices that take precedence over all others, by <provider>/<model>.
	Overrides map[string]PriceFields
}

// Catalogue holds the operator's providers. It is safe for concurrent use: a call sees
// either what was before a Replace or what is after it.
type Catalogue struct {
	now    atomic.Pointer[listing]
	markup atomic.Pointer[float64] // per cent; see Mark
}

// Mark adds per cent to the prices of calls with the operator's keys, from the next call on.
func (c *Catalogue) Mark(percent float64) { c.markup.Store(&percent) }

func (c *Catalogue) raised(p *Price) *Price {
	if percent := c.markup.Load(); percent != nil {
		return p.raised(*percent)
	}
	return p
}

// NewCatalogue checks the providers. defaultRef is [Offering.Default].
func NewCatalogue(providers []Provider, defaultRef string) (*Catalogue, error) {
	c := &Catalogue{}
	return c, c.Replace(Offering{Providers: providers, Default: defaultRef})
}

// Replace changes what the catalogue has. After an error it has what it had.
func (c *Catalogue) Replace(o Offering) error {
	l, err := newListing(o)
	if err != nil {
		return err
	}
	c.now.Store(l)
	return nil
}

// Check returns what is wrong with an offering.
func (o Offering) Check() error {
	_, err := newListing(o)
	return err
}

// UsePrices sets the list for what the operator's own does not say. It is called
// before the catalogue is used.
func (c *Catalogue) UsePrices(l *PriceList) {
	now := c.now.Load()
	now.prices = l
	now.usePrices()
}

// List returns the listed models in the order of the configuration.
func (c *Catalogue) List() []Entry {
	all := c.now.Load().List()
	for i := range all {
		all[i].Price = c.raised(all[i].Price)
	}
	return all
}

// Providers returns the providers in the order of the configuration.
func (c *Catalogue) Providers() []Served { return c.now.Load().Providers() }

// Endpoint returns the target of a provider, with the operator's key and without
// a model; false if there is no such provider.
func (c *Catalogue) Endpoint(name string) (Target, bool) { return c.now.Load().Endpoint(name) }

// At reports whether there is a provider of that name and its endpoint is this
// one, in the form that NormalizeEndpoint returns.
func (c *Catalogue) At(name, endpoint string) bool { return c.now.Load().At(name, endpoint) }

// Default returns the ref of the model of agents that name none; "" if there is
// no model at all.
func (c *Catalogue) Default() string { return c.now.Load().fallback }

// Fallback returns the ref of the model that is asked if another does not answer; "": none.
func (c *Catalogue) Fallback() string { return c.now.Load().spare }

// Lookup finds a model by its ref; "" is the default model. Errors: *Error
// with the code provider_not_configured.
func (c *Catalogue) Lookup(ref string) (Target, error) { return c.lookup(ref, "") }

// ProviderOf returns the provider that serves a model by its ref; "" if there is none.
func (c *Catalogue) ProviderOf(ref string) string { return c.now.Load().ProviderOf(ref) }

func (c *Catalogue) lookup(ref, remembered string) (Target, error) {
	t, err := c.now.Load().lookup(ref, remembered)
	t.Price = c.raised(t.Price)
	return t, err
}

// unmarked returns the price of a target without what Mark added.
func (c *Catalogue) unmarked(t *Target) *Price {
	plain, err := c.now.Load().lookup(t.Provider+"/"+t.Model, t.Provider)
	if err != nil {
		return t.Price
	}
	return plain.Price
}

func (c *Catalogue) lists(ref string) bool { return c.now.Load().lists(ref) }

func (c *Catalogue) complete(t *Target, public string) { c.now.Load().complete(t, public) }
