package model_test

import (
	"math"
	"strings"
	"testing"

	"agentd/internal/kernel/model"
)

// The cost of what providers reported is that of their bills, to the hundredth (rule
// D23-cost). The bills are by each provider's price page of the list's date.
func TestCostIsThatOfTheBill(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		provider, id string
		usage        model.Usage
		bill         float64
	}{
		"openai, mostly cached":      {"openai", "gpt-5-2025-08-07", model.Usage{InputTokens: 100_000, CachedTokens: 99_000, OutputTokens: 1_000, ThinkingTokens: 800}, .00125 + .012375 + .01},
		"anthropic, read and stored": {"anthropic", "claude-sonnet-4-5-20250929", model.Usage{InputTokens: 50_000, CachedTokens: 40_000, CacheWriteTokens: 8_000, OutputTokens: 2_000}, .006 + .012 + .03 + .03},
		"anthropic, long":            {"anthropic", "claude-sonnet-4-5", model.Usage{InputTokens: 300_000, CachedTokens: 200_000, OutputTokens: 1_000}, .6 + .12 + .0225},
		"gemini, short":              {"gemini", "gemini-2.5-pro", model.Usage{InputTokens: 200_000, OutputTokens: 4_000, ThinkingTokens: 3_000}, .25 + .04},
		"gemini, long":               {"gemini", "gemini-2.5-pro", model.Usage{InputTokens: 200_001, OutputTokens: 4_000}, .5000025 + .06},
		"deepseek":                   {"deepseek", "deepseek-chat", model.Usage{InputTokens: 64_000, CachedTokens: 60_000, OutputTokens: 500}, .00112 + .00168 + .00021},
		"groq, nothing is cached":    {"groq", "llama-3.3-70b-versatile", model.Usage{InputTokens: 10_000, OutputTokens: 1_000}, .0059 + .00079},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listed, ok := model.PublicPrices().Lookup(tt.provider, tt.id)
			if !ok || listed.Price == nil || listed.Context == 0 {
				t.Fatalf("%+v, %v", listed, ok)
			}
			cost := listed.Price.Cost(tt.usage)
			if math.Abs(cost-tt.bill) > tt.bill/100 {
				t.Errorf("$%.6f for a bill of $%.6f", cost, tt.bill)
			}
			highest := listed.Price.Highest(tt.usage.InputTokens)
			if most := (highest.Input*float64(tt.usage.InputTokens) + highest.Output*float64(tt.usage.OutputTokens)) / 1e6; most < cost {
				t.Errorf("at most $%.6f for a cost of $%.6f", most, cost)
			}
		})
	}
}

// Numbers that cannot be do not make a cost negative.
func TestCostOfAbsurdUsage(t *testing.T) {
	t.Parallel()
	rate := func(v float64) *float64 { return &v }
	p := model.Price{Rates: model.Rates{Input: 2, Output: 4, CachedInput: rate(1), CacheWrite: rate(3), Reasoning: rate(8)}}
	for _, tt := range []struct {
		usage model.Usage
		want  float64
	}{
		{model.Usage{InputTokens: 1e6, OutputTokens: 1e6, ThinkingTokens: 5e5}, 2 + 2 + 4},
		{model.Usage{InputTokens: 1e6, CachedTokens: 5e6, CacheWriteTokens: 5e6}, 1},
		{model.Usage{InputTokens: 1e6, CachedTokens: -5, CacheWriteTokens: 1e6}, 3},
		{model.Usage{OutputTokens: 1e6, ThinkingTokens: 9e6}, 8},
	} {
		if got := p.Cost(tt.usage); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%+v costs %v, not %v", tt.usage, got, tt.want)
		}
	}
}

func TestPlausibleUsage(t *testing.T) {
	t.Parallel()
	known, unknown := &model.Target{Context: 128_000}, &model.Target{}
	for _, tt := range []struct {
		u    model.Usage
		at   *model.Target
		want bool
	}{
		{model.Usage{InputTokens: 5, OutputTokens: 1}, known, true},
		{model.Usage{InputTokens: 900_000}, known, true},
		{model.Usage{InputTokens: 1e12, OutputTokens: 1}, known, false},
		{model.Usage{InputTokens: 1e12, OutputTokens: 1}, unknown, false},
		{model.Usage{InputTokens: 5, OutputTokens: 2_000_000}, known, false},
		{model.Usage{InputTokens: -5, OutputTokens: 1}, known, false},
		{model.Usage{}, known, false},
		{model.Usage{InputTokens: 200_000}, &model.Target{Context: 1_000}, true},
	} {
		if got := tt.u.Plausible(tt.at); got != tt.want {
			t.Errorf("%+v of a window of %d: %v", tt.u, tt.at.Context, got)
		}
	}
}

func TestParsePriceList(t *testing.T) {
	t.Parallel()
	const line = `{"provider": "a", "id": "m", "input_usd_per_mtok": 1, "output_usd_per_mtok": 2}`
	for file, want := range map[string]string{
		`{"as_of": "2026-01-01", "models": [` + line + `]}`:                                                                 "",
		`{"as_of": "2026-01-01", "models": [` + line + `,` + line + `]}`:                                                    "a/m twice",
		`{"as_of": "January", "models": []}`:                                                                                "as_of",
		`{"as_of": "2026-01-01", "models": [{"id": "m"}]}`:                                                                  "no provider",
		`{"as_of": "2026-01-01", "models": [{"provider": "a", "id": "m", "x": 1}]}`:                                         "models/0/x is not a known setting",
		`{"as_of": "2026-01-01", "models": [{"provider": "a", "id": "m", "input_usd_per_mtok": 1}]}`:                        "or neither",
		`{"as_of": "2026-01-01", "models": [{"provider": "a", "id": "m", "cached_input_usd_per_mtok": 1}]}`:                 "further prices",
		`{"as_of": "2026-01-01", "models": [{"provider": "a", "id": "m", "context_window": -1}]}`:                           "negative",
		`{"as_of": "2026-01-01", "models": [` + strings.Replace(line, "1,", "-1,", 1) + `]}`:                                "negative",
		`{"as_of": "2026-01-01", "models": [` + strings.Replace(line, "2}", `2, "tiers": [{"above_tokens": 5}]}`, 1) + `]}`: "each tier needs",
		`{"as_of": "2026-01-01", "models": [` + strings.Replace(line, "2}",
			`2, "tiers": [{"above_tokens": 5, "input_usd_per_mtok": 1, "output_usd_per_mtok": 1}, {"above_tokens": 5, "input_usd_per_mtok": 1, "output_usd_per_mtok": 1}]}`, 1) + `]}`: "ascend",
	} {
		_, err := model.ParsePriceList([]byte(file))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if l := model.PublicPrices(); len(l.AsOf) != len("2026-01-01") {
		t.Errorf("the list is of %q", l.AsOf)
	}
}

// The list is for the public endpoints of its providers, and only for what the operator
// does not say (rule D23-price-list).
func TestPricesOfPublicEndpoints(t *testing.T) {
	t.Parallel()
	own := 7.0
	c, err := model.NewCatalogue([]model.Provider{
		{Name: "default", BaseURL: "https://api.openai.com/v1/", Models: []model.Offer{
			{ID: "gpt-5"}, {ID: "gpt-4o", ContextWindow: 1000, PriceFields: model.PriceFields{Input: &own, Output: &own}}, {ID: "other"},
		}},
		{Name: "openai", BaseURL: "https://elsewhere.example/v1", Models: []model.Offer{{ID: "gpt-5"}}},
	}, "gpt-5")
	if err != nil {
		t.Fatal(err)
	}
	c.UsePrices(model.PublicPrices())
	for ref, want := range map[string]struct {
		input      float64
		context, o int
	}{
		"gpt-5": {1.25, 400_000, 128_000}, "gpt-5-2025-08-07": {1.25, 400_000, 128_000}, "gpt-4o": {7, 1000, 16384}, "other": {}, "openai/gpt-5": {},
	} {
		got, err := c.Lookup(ref)
		if err != nil {
			t.Fatal(err)
		}
		input := 0.0
		if got.Price != nil {
			input = got.Price.Input
		}
		if input != want.input || got.Context != want.context || got.MaxOutput != want.o {
			t.Errorf("%s: %v, %d, %d", ref, got.Price, got.Context, got.MaxOutput)
		}
	}
	if e := c.List()[0]; e.Price == nil || e.Context != 400_000 || e.Facts.MaxOutput != 128_000 {
		t.Errorf("listed as %+v", e)
	}
}
