package model

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// PriceList is what models of public providers cost and take, as of a date. It is used
// where an operator says nothing else about a model.
type PriceList struct {
	AsOf   string // the day, YYYY-MM-DD
	models map[listedModel]Listing
}

type listedModel struct{ provider, id string }

// Listing is a line of the list.
type Listing struct {
	Price     *Price // nil: unknown
	Context   int    // tokens; 0: unknown
	MaxOutput int    // tokens; 0: unknown
	Inputs    Inputs
}

//go:embed prices.json
var publicPrices []byte

// PublicPrices returns the list that agentd comes with.
var PublicPrices = sync.OnceValue(func() *PriceList {
	l, err := ParsePriceList(publicPrices)
	if err != nil {
		panic(err) // a test reads it
	}
	return l
})

// ParsePriceList reads a list (AGENTD_MODEL_PRICES):
//
//	{"as_of": "2026-02-01", "models": [{"provider": "openai", "id": "gpt-5", "context_window": 400000, "max_output_tokens": 128000,
//	  "inputs": {"images": {"max_count": 500}, "documents": true, "audio": false},
//	  "input_usd_per_mtok": 1.25, "cached_input_usd_per_mtok": 0.125, "output_usd_per_mtok": 10}]}
//
// Unknown and duplicate names are refused.
func ParsePriceList(file []byte) (*PriceList, error) {
	var doc struct {
		AsOf   string `json:"as_of"`
		Models []struct {
			Provider  string      `json:"provider"`
			ID        string      `json:"id"`
			Context   int         `json:"context_window"`
			MaxOutput int         `json:"max_output_tokens"`
			Inputs    inputFields `json:"inputs"`
			PriceFields
		} `json:"models"`
	}
	if err := json.Unmarshal(file, &doc, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("the price list cannot be read: %w", explain(err))
	}
	if _, err := time.Parse(time.DateOnly, doc.AsOf); err != nil {
		return nil, errors.New("the price list: as_of is not a day, YYYY-MM-DD")
	}
	l := &PriceList{AsOf: doc.AsOf, models: make(map[listedModel]Listing, len(doc.Models))}
	for _, m := range doc.Models {
		key := listedModel{m.Provider, m.ID}
		_, twice := l.models[key]
		switch {
		case m.Provider == "" || m.ID == "":
			return nil, errors.New("the price list: a model has no provider or no id")
		case twice:
			return nil, fmt.Errorf("the price list has %s/%s twice", m.Provider, m.ID)
		case m.Context < 0 || m.Context > maxContext || m.MaxOutput < 0 || m.MaxOutput > maxContext:
			return nil, fmt.Errorf("the price list: a limit of %s/%s is negative or too large", m.Provider, m.ID)
		}
		if err := m.Check(); err != nil {
			return nil, fmt.Errorf("the price list: %s/%s: %w", m.Provider, m.ID, err)
		}
		l.models[key] = Listing{Price: m.price(), Context: m.Context, MaxOutput: m.MaxOutput, Inputs: Inputs(m.Inputs)}
	}
	return l, nil
}

// Lookup returns what the list has about a model of a public provider. A name with a
// date or with -latest at its end is that of the model without it, unless the list has
// both. Models at Amazon Bedrock have no versions in the list. A nil list has nothing.
func (l *PriceList) Lookup(provider, id string) (Listing, bool) {
	if l == nil || provider == "" {
		return Listing{}, false
	}
	if found, ok := l.models[listedModel{provider, id}]; ok {
		return found, true
	}
	if provider == bedrock {
		return l.lookupBedrock(id)
	}
	found, ok := l.models[listedModel{provider, withoutDate(id)}]
	return found, ok
}

// bedrock is the provider of models at Amazon Bedrock, in any region.
const bedrock = "bedrock"

// versionAtBedrock ends the names of models at Bedrock.
var versionAtBedrock = regexp.MustCompile(`-v[0-9]+(:[0-9]+(:[0-9a-z]+)?)?$`)

// profilesAtBedrock begin the names of inference profiles over regions.
var profilesAtBedrock = []string{"global.", "us.", "eu.", "apac.", "jp.", "au."}

// lookupBedrock finds a model by its name, that of an inference profile, or the ARN of
// either. Where the list has no line for the profile, that of the model holds.
func (l *PriceList) lookupBedrock(id string) (Listing, bool) {
	if strings.HasPrefix(id, "arn:") {
		id = id[strings.LastIndexByte(id, '/')+1:]
	}
	id = withoutDate(versionAtBedrock.ReplaceAllString(id, ""))
	if found, ok := l.models[listedModel{bedrock, id}]; ok {
		return found, true
	}
	for _, profile := range profilesAtBedrock {
		if bare, ok := strings.CutPrefix(id, profile); ok {
			found, ok := l.models[listedModel{bedrock, bare}]
			return found, ok
		}
	}
	return Listing{}, false
}

// withoutDate removes -latest, -20260201 and -2026-02-01 from the end of a name.
func withoutDate(id string) string {
	if bare, ok := strings.CutSuffix(id, "-latest"); ok {
		return bare
	}
	for _, form := range []string{"-20060102", "-2006-01-02"} {
		if at := len(id) - len(form); at > 0 {
			if _, err := time.Parse(form, id[at:]); err == nil {
				return id[:at]
			}
		}
	}
	return id
}

// apply sets what is not known of a target.
func (l Listing) apply(t *Target) {
	if t.Price == nil {
		t.Price = l.Price
	}
	if t.Context == 0 {
		t.Context = l.Context
	}
	if t.MaxOutput == 0 {
		t.MaxOutput = l.MaxOutput
	}
	t.Capabilities.Inputs = t.Capabilities.Inputs.Over(l.Inputs)
}
