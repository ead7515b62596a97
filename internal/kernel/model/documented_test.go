package model

import (
	"bytes"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The providers files in docs/providers.md are read as they stand, each with the wire that
// its section describes (rule D23-provider-examples).
func TestDocumentedProviders(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Wire{}
	for _, block := range regexp.MustCompile("(?s)### ([^\n]+)\n\n```json\n(.*?)```").FindAllSubmatch(page, -1) {
		providers, err := ParseProviders(bytes.ReplaceAll(block[2], []byte("…"), []byte("1"))) // a reader fills in what is left out
		if err != nil || len(providers) != 1 || len(providers[0].Models) == 0 {
			t.Errorf("%s: %v", block[1], err)
			continue
		}
		c, err := NewCatalogue(providers, "")
		if err != nil {
			t.Errorf("%s: %v", block[1], err)
			continue
		}
		to, err := c.Lookup(providers[0].Name + "/" + providers[0].Models[0].ID)
		if err != nil {
			t.Errorf("%s: %v", block[1], err)
		}
		got[string(block[1])] = to.Wire
	}
	want := map[string]Wire{
		"OpenAI": WireResponses, "Anthropic": WireAnthropic, "Gemini": WireGemini, "Azure OpenAI": WireAzure, "Amazon Bedrock": WireBedrock,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
