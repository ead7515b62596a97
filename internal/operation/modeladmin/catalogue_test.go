package modeladmin

import (
	"math"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
	"agentd/internal/operation/setting"
)

const prices = `"input_usd_per_mtok":1,"output_usd_per_mtok":10,"cached_input_usd_per_mtok":0.5,"cache_write_usd_per_mtok":2,"reasoning_usd_per_mtok":20,
	"tiers":[{"above_tokens":1000,"input_usd_per_mtok":3,"output_usd_per_mtok":30,"cached_input_usd_per_mtok":1.5,"cache_write_usd_per_mtok":6,"reasoning_usd_per_mtok":60}]`

// bill is what a call of p/m costs, in millionths of a dollar, when it has a part of each
// kind: 100 tokens of input, of which 30 were cached and 20 are stored, and 50 of output,
// of which 10 are thinking.
func bill(t *testing.T, o model.Offering, more int) float64 {
	t.Helper()
	o.Providers = append(o.Providers, model.Provider{Name: "other", BaseURL: "http://127.0.0.1:1/v1"})
	c := &model.Catalogue{}
	if err := c.Replace(o); err != nil {
		t.Fatal(err)
	}
	to, err := c.Lookup("p/m")
	if err != nil || to.Price == nil {
		t.Fatalf("%+v, %v", to, err)
	}
	return to.Price.Cost(model.Usage{InputTokens: 100 + more, CachedTokens: 30, CacheWriteTokens: 20, OutputTokens: 50, ThinkingTokens: 10}) * 1e6
}

// Each part of a price that the operator sets is in the bill, whether it is set for a
// model or in the catalogue.
func TestEveryPartOfAPriceIsUsed(t *testing.T) {
	t.Parallel()
	var set Pricing
	if err := (&setting.Section[Pricing]{}).Merge(&set, jsontext.Value(`{"models":{"p/m":{`+prices+`}}}`)); err != nil {
		t.Fatal(err)
	}
	var listed Models
	if err := (&setting.Section[Models]{}).Merge(&listed, jsontext.Value(`{"models":[{"provider":"p","id":"m","context_window":7000,"max_output_tokens":70,`+
		`"capabilities":{"thinking":false},`+prices+`}]}`)); err != nil {
		t.Fatal(err)
	}
	configured := []model.Provider{{Name: "p", BaseURL: "http://127.0.0.1:1/v1", Models: []model.Offer{{ID: "gone"}}}}
	catalogued := []model.Provider{configured[0]}
	listed.use(catalogued)
	for name, o := range map[string]model.Offering{
		"pricing": {Providers: configured, Overrides: set.overrides()}, "catalogue": {Providers: catalogued},
	} {
		if got, want := bill(t, o, 0), 50+30*0.5+20*2+40*10+10*20.0; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		if got, want := bill(t, o, 1000), 1050*3+30*1.5+20*6+40*30+10*60.0; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s, with more input: %v, want %v", name, got, want)
		}
	}
	c, err := model.NewCatalogue(catalogued, "")
	if err != nil {
		t.Fatal(err)
	}
	to, err := c.Lookup("p/m")
	if err != nil || to.Context != 7000 || to.MaxOutput != 70 || to.Capabilities.Thinking == nil || *to.Capabilities.Thinking {
		t.Errorf("%+v, %v", to, err)
	}
	if all := c.List(); len(all) != 1 || all[0].Ref != "p/m" {
		t.Errorf("listed: %+v", all)
	}
}
