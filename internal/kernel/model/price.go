package model

import (
	"errors"
	"slices"
)

// Rates are in US dollars per million tokens.
type Rates struct {
	Input  float64 `json:"input_usd_per_mtok"`
	Output float64 `json:"output_usd_per_mtok"`
	// CachedInput is for input that the provider had in a cache, CacheWrite for input
	// that it stored in one, Reasoning for output that is thinking. Nil: as the rest.
	CachedInput *float64 `json:"cached_input_usd_per_mtok,omitzero"`
	CacheWrite  *float64 `json:"cache_write_usd_per_mtok,omitzero"`
	Reasoning   *float64 `json:"reasoning_usd_per_mtok,omitzero"`
}

// Price is what a model costs.
type Price struct {
	Rates
	Tiers []Tier `json:"tiers,omitzero"` // by AboveTokens, ascending
}

// Tier is the rates of calls whose whole input, cached tokens included, is larger than
// AboveTokens. They are for all tokens of the call.
type Tier struct {
	AboveTokens int `json:"above_tokens"`
	Rates
}

// at returns the rates of a call with that much input.
func (p *Price) at(input int) Rates {
	for _, t := range slices.Backward(p.Tiers) {
		if input > t.AboveTokens {
			return t.Rates
		}
	}
	return p.Rates
}

// Cost of a usage, in US dollars.
func (p Price) Cost(u Usage) float64 {
	r := p.at(u.InputTokens)
	cached := max(0, min(u.CachedTokens, u.InputTokens))
	written := max(0, min(u.CacheWriteTokens, u.InputTokens-cached))
	thinking := max(0, min(u.ThinkingTokens, u.OutputTokens))
	cost := r.Input*float64(u.InputTokens-cached-written) + or(r.CachedInput, r.Input)*float64(cached) +
		or(r.CacheWrite, r.Input)*float64(written) + r.Output*float64(u.OutputTokens-thinking) + or(r.Reasoning, r.Output)*float64(thinking)
	return cost / 1e6
}

// raised returns the price with some per cent more.
func (p *Price) raised(percent float64) *Price {
	if p == nil || percent == 0 {
		return p
	}
	by := 1 + percent/100
	one := func(r Rates) Rates {
		part := func(f *float64) *float64 {
			if f == nil {
				return nil
			}
			more := *f * by
			return &more
		}
		return Rates{r.Input * by, r.Output * by, part(r.CachedInput), part(r.CacheWrite), part(r.Reasoning)}
	}
	more := &Price{Rates: one(p.Rates)}
	for _, t := range p.Tiers {
		more.Tiers = append(more.Tiers, Tier{t.AboveTokens, one(t.Rates)})
	}
	return more
}

// Highest returns rates that a call with up to that much input does not exceed,
// whatever of it is cached. Only Input and Output are set.
func (p *Price) Highest(input int) Rates {
	highest := func(r Rates) Rates {
		return Rates{Input: max(r.Input, or(r.CachedInput, 0), or(r.CacheWrite, 0)), Output: max(r.Output, or(r.Reasoning, 0))}
	}
	all := highest(p.Rates)
	for _, t := range p.Tiers {
		if input > t.AboveTokens {
			more := highest(t.Rates)
			all.Input, all.Output = max(all.Input, more.Input), max(all.Output, more.Output)
		}
	}
	return all
}

func or(rate *float64, otherwise float64) float64 {
	if rate == nil {
		return otherwise
	}
	return *rate
}

// PriceFields are the prices of a model as operators write them. Either both Input
// and Output are set or neither, and the others only with them.
type PriceFields struct {
	Input       *float64     `json:"input_usd_per_mtok"`
	Output      *float64     `json:"output_usd_per_mtok"`
	CachedInput *float64     `json:"cached_input_usd_per_mtok"`
	CacheWrite  *float64     `json:"cache_write_usd_per_mtok"`
	Reasoning   *float64     `json:"reasoning_usd_per_mtok"`
	Tiers       []TierFields `json:"tiers"`
}

// TierFields are a tier as operators write it.
type TierFields struct {
	AboveTokens int      `json:"above_tokens"`
	Input       *float64 `json:"input_usd_per_mtok"`
	Output      *float64 `json:"output_usd_per_mtok"`
	CachedInput *float64 `json:"cached_input_usd_per_mtok"`
	CacheWrite  *float64 `json:"cache_write_usd_per_mtok"`
	Reasoning   *float64 `json:"reasoning_usd_per_mtok"`
}

func (f *PriceFields) base() TierFields {
	return TierFields{0, f.Input, f.Output, f.CachedInput, f.CacheWrite, f.Reasoning}
}

// Check returns what is wrong with the prices, as the end of a sentence.
func (f *PriceFields) Check() error {
	base := f.base()
	further := base.CachedInput != nil || base.CacheWrite != nil || base.Reasoning != nil || len(f.Tiers) > 0
	if base.Input == nil && base.Output == nil && further {
		return errors.New("further prices need input_usd_per_mtok and output_usd_per_mtok")
	}
	if (base.Input == nil) != (base.Output == nil) {
		return errors.New("give both input_usd_per_mtok and output_usd_per_mtok, or neither")
	}
	above := 0
	for _, t := range append([]TierFields{base}, f.Tiers...) {
		for _, rate := range []*float64{t.Input, t.Output, t.CachedInput, t.CacheWrite, t.Reasoning} {
			if rate != nil && !(*rate >= 0 && *rate <= maxRate) {
				return errors.New("a price is negative or above 1,000,000")
			}
		}
	}
	for _, t := range f.Tiers {
		if t.AboveTokens <= above {
			return errors.New("the above_tokens of tiers are positive and ascend")
		}
		if above = t.AboveTokens; t.Input == nil || t.Output == nil {
			return errors.New("each tier needs input_usd_per_mtok and output_usd_per_mtok")
		}
	}
	return nil
}

// maxRate bounds prices, so that costs stay numbers.
const maxRate = 1e6

// price returns the prices; nil: none are set.
func (f *PriceFields) price() *Price {
	base := f.base()
	if base.Input == nil {
		return nil
	}
	p := &Price{Rates: base.rates()}
	for _, t := range f.Tiers {
		p.Tiers = append(p.Tiers, Tier{t.AboveTokens, t.rates()})
	}
	return p
}

func (t *TierFields) rates() Rates {
	return Rates{*t.Input, *t.Output, t.CachedInput, t.CacheWrite, t.Reasoning}
}
