package model

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
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

// AWS is an AWS identity, with whose keys calls are signed, or the keys of the role that it
// assumes.
type AWS struct {
	AccessKeyID     string        `json:"access_key_id"`
	SecretAccessKey secret.String `json:"secret_access_key"`
	SessionToken    secret.String `json:"session_token"` // of temporary keys

	// From is FromMachine where the keys are those of where agentd runs, for the operator's
	// own providers only; "": the keys above.
	From       string `json:"from"`
	RoleARN    string `json:"role_arn"`    // of a role to assume; "": none
	ExternalID string `json:"external_id"` // that the role's trust policy may want
}

// FromMachine are the keys of the instance, container or pod that agentd runs in.
const FromMachine = "machine"

// check returns what is wrong with an identity, as the end of a sentence.
func (a *AWS) check() error {
	switch {
	case a.From == FromMachine && (a.AccessKeyID != "" || !a.SecretAccessKey.Empty() || !a.SessionToken.Empty()):
		return fmt.Errorf("aws has keys of its own or from: %s, not both", FromMachine)
	case a.From != "" && a.From != FromMachine:
		return fmt.Errorf("aws has no from but %s", FromMachine)
	case a.From == "" && (a.AccessKeyID == "" || !isWord(a.AccessKeyID) || a.SecretAccessKey.Empty()):
		return fmt.Errorf("aws needs access_key_id and secret_access_key")
	case a.RoleARN != "" && (len(a.RoleARN) > maxARN || !roleARN.MatchString(a.RoleARN)):
		return fmt.Errorf("aws.role_arn is the ARN of a role, as in arn:aws:iam::123456789012:role/models")
	case a.ExternalID != "" && (a.RoleARN == "" || len(a.ExternalID) > maxExternalID || !externalID.MatchString(a.ExternalID)):
		return fmt.Errorf("aws.external_id goes with role_arn and has 2 to %d letters, digits and +=,.@:/-", maxExternalID)
	}
	return nil
}

const maxARN, maxExternalID = 2048, 1224

var (
	roleARN    = regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+$`)
	externalID = regexp.MustCompile(`^[A-Za-z0-9_+=,.@:/-]{2,}$`)
)

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
	case !isWord(a.APIVersion):
		return fmt.Errorf("api_version has up to 64 letters, digits and hyphens")
	case a.Entra != nil && (a.Entra.TenantID == "" || !isWord(a.Entra.TenantID) || a.Entra.ClientID == "" || a.Entra.ClientSecret.Empty()):
		return fmt.Errorf("entra needs tenant_id, client_id and client_secret")
	case a.AWS != nil:
		return a.AWS.check()
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
