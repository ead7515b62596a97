package model_test

import (
	"testing"

	"agentd/internal/kernel/model"
)

// A model at Bedrock is found by its name, by a profile over regions and by the ARN of
// either, from any region's endpoint; what is not listed has no price (rule D23-price-list).
func TestPricesAtBedrock(t *testing.T) {
	t.Parallel()
	c, err := model.NewCatalogue([]model.Provider{{Name: "aws", BaseURL: "https://bedrock-runtime.eu-central-1.amazonaws.com", Wire: model.WireBedrock}}, "aws/x")
	if err != nil {
		t.Fatal(err)
	}
	c.UsePrices(model.PublicPrices())
	for id, want := range map[string]float64{ // dollars of a million tokens of input; 0: no price
		"anthropic.claude-sonnet-4-20250514-v1:0":                                                  3,
		"eu.anthropic.claude-sonnet-4-20250514-v1:0":                                               3,
		"global.anthropic.claude-sonnet-4-20250514-v1:0":                                           3,
		"global.anthropic.claude-sonnet-4-5-20250929-v1:0":                                         3,
		"us.anthropic.claude-sonnet-4-5-20250929-v1:0":                                             3.3,
		"eu.anthropic.claude-opus-4-6-v1":                                                          5.5,
		"anthropic.claude-3-haiku-20240307-v1:0":                                                   .25,
		"anthropic.claude-3-haiku-20240307-v1:0:200k":                                              .25,
		"us.amazon.nova-pro-v1:0":                                                                  .8,
		"eu.amazon.nova-pro-v1:0":                                                                  0,
		"us.meta.llama3-3-70b-instruct-v1:0":                                                       .72,
		"us-gov.anthropic.claude-sonnet-4-20250514-v1:0":                                           0,
		"anthropic.claude-9-v1:0":                                                                  0,
		"arn:aws:bedrock:eu-west-1:1:application-inference-profile/abc":                            0,
		"arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-4-1-20250805-v1:0": 15,
		"arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-3-7-sonnet-20250219-v1:0":    3,
	} {
		got, err := c.Lookup("aws/" + id)
		if err != nil {
			t.Fatal(err)
		}
		if price := got.Price; price == nil && want != 0 || price != nil && price.Input != want {
			t.Errorf("%s: %+v, want %v", id, price, want)
		}
	}
}
