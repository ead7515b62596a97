package model

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"agentd/internal/base/secret"
)

// Wire is the protocol that an endpoint speaks.
type Wire string

// The wires. The zero value is WireChat.
const (
	WireChat      Wire = "openai_chat"      // OpenAI's chat completions, and endpoints compatible with them
	WireResponses Wire = "openai_responses" // OpenAI's responses
	WireAnthropic Wire = "anthropic"        // Anthropic's messages
	WireGemini    Wire = "gemini"           // Gemini's generateContent
	WireAzure     Wire = "azure_openai"     // chat completions of deployments of Azure OpenAI
	WireBedrock   Wire = "bedrock"          // Converse of Amazon Bedrock
)

var allWires = []Wire{WireChat, WireResponses, WireAnthropic, WireGemini, WireBedrock, WireAzure}

// WireNames lists the wires for a sentence.
func WireNames() string {
	names := make([]string, len(allWires))
	for i, w := range allWires {
		names[i] = string(w)
	}
	return strings.Join(names, ", ")
}

// Known reports whether there is such a wire.
func (w Wire) Known() bool { return slices.Contains(allWires, w) }

// Access is what the wires of cloud providers need beside an address and a key.
type Access struct {
	APIVersion string `json:"api_version,omitzero"` // of Azure; "": its current one
	Entra      *Entra `json:"entra,omitzero"`       // in place of Azure's key
	Region     string `json:"region,omitzero"`      // of Bedrock; "": that of the address
	AWS        *AWS   `json:"aws,omitzero"`         // in place of a key of Bedrock's own
}

// AWS are the keys of an AWS identity, with which calls are signed.
type AWS struct {
	AccessKeyID     string        `json:"access_key_id"`
	SecretAccessKey secret.String `json:"secret_access_key"`
	SessionToken    secret.String `json:"session_token"` // of temporary keys
}

// Entra is an application of Microsoft Entra ID.
type Entra struct {
	TenantID     string        `json:"tenant_id"`
	ClientID     string        `json:"client_id"`
	ClientSecret secret.String `json:"client_secret"`
}

// Check returns what is wrong with the access to an endpoint with a wire, as the end of a
// sentence.
func (a *Access) Check(w Wire) error {
	w = cmp.Or(w, WireChat)
	switch {
	case !w.Known():
		return fmt.Errorf("wire must be one of %s", WireNames())
	case w != WireAzure && (a.APIVersion != "" || a.Entra != nil):
		return fmt.Errorf("api_version and entra are for the wire %s", WireAzure)
	case w != WireBedrock && (a.Region != "" || a.AWS != nil):
		return fmt.Errorf("region and aws are for the wire %s", WireBedrock)
	case !isWord(a.Region):
		return fmt.Errorf("region has up to 64 letters, digits and hyphens, as in us-east-1")
	case a.AWS != nil && (a.AWS.AccessKeyID == "" || !isWord(a.AWS.AccessKeyID) || a.AWS.SecretAccessKey.Empty()):
		return fmt.Errorf("aws needs access_key_id and secret_access_key")
	case !isWord(a.APIVersion):
		return fmt.Errorf("api_version has up to 64 letters, digits and hyphens")
	case a.Entra != nil && (a.Entra.TenantID == "" || !isWord(a.Entra.TenantID) || a.Entra.ClientID == "" || a.Entra.ClientSecret.Empty()):
		return fmt.Errorf("entra needs tenant_id, client_id and client_secret")
	}
	return nil
}

// isWord reports whether a value can stand in an address or a header.
func isWord(s string) bool {
	return len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") == ""
}

// WireAt returns the wire of a provider that names none: that of the public provider of
// its name, if its endpoint is that one, or of the public endpoint at its address. "" is
// WireChat.
func WireAt(name, endpoint string) Wire {
	if p, ok := PublicProvider(name); ok && p.Wire != "" && SameEndpoint(p.Endpoint, endpoint) {
		return p.Wire
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	host, path := strings.ToLower(u.Hostname()), strings.TrimRight(u.Path, "/")
	switch {
	case strings.HasSuffix(path, "/openai") || strings.HasSuffix(path, "/openai/v1"): // compatible with chat completions
		return ""
	case host == "api.anthropic.com":
		return WireAnthropic
	case host == "generativelanguage.googleapis.com":
		return WireGemini
	case strings.HasSuffix(host, ".openai.azure.com") || strings.HasSuffix(host, ".cognitiveservices.azure.com"):
		return WireAzure
	case AWSRegion(endpoint) != "":
		return WireBedrock
	}
	return ""
}

// AWSRegion returns the region of an address of Amazon Bedrock; "" for other addresses.
func AWSRegion(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".cn")
	service, rest, _ := strings.Cut(host, ".")
	region, domain, _ := strings.Cut(rest, ".")
	if service != "bedrock-runtime" && service != "bedrock-runtime-fips" || domain != "amazonaws.com" {
		return ""
	}
	return region
}

// budgets are the fields for a budget of thinking tokens that wires take by themselves.
var budgets = map[Wire]string{WireAnthropic: BudgetThinking, WireBedrock: BudgetThinking, WireGemini: BudgetPlain}
