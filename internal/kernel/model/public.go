package model

import (
	"slices"
	"strings"
)

// Public is a widely used provider.
type Public struct {
	ID       string
	Name     string
	Endpoint string // in the form of NormalizeEndpoint
	Local    bool   // runs on the user's own machine, at its usual port
	Wire     Wire   // "": WireChat
}

// publics are known without configuration, so that a tenant needs only a key.
// The endpoints are those that the providers publish.
var publics = []Public{
	{ID: "anthropic", Name: "Anthropic", Endpoint: "https://api.anthropic.com/v1", Wire: WireAnthropic},
	{ID: "cerebras", Name: "Cerebras", Endpoint: "https://api.cerebras.ai/v1"},
	{ID: "cohere", Name: "Cohere", Endpoint: "https://api.cohere.ai/compatibility/v1"},
	{ID: "deepinfra", Name: "DeepInfra", Endpoint: "https://api.deepinfra.com/v1/openai"},
	{ID: "deepseek", Name: "DeepSeek", Endpoint: "https://api.deepseek.com/v1"},
	{ID: "fireworks", Name: "Fireworks AI", Endpoint: "https://api.fireworks.ai/inference/v1"},
	{ID: "gemini", Name: "Google Gemini", Endpoint: "https://generativelanguage.googleapis.com/v1beta/openai", Wire: WireGemini},
	{ID: "groq", Name: "Groq", Endpoint: "https://api.groq.com/openai/v1"},
	{ID: "mistral", Name: "Mistral AI", Endpoint: "https://api.mistral.ai/v1"},
	{ID: "moonshot", Name: "Moonshot AI", Endpoint: "https://api.moonshot.ai/v1"},
	{ID: "nvidia", Name: "NVIDIA NIM", Endpoint: "https://integrate.api.nvidia.com/v1"},
	{ID: "openai", Name: "OpenAI", Endpoint: "https://api.openai.com/v1"},
	{ID: "openrouter", Name: "OpenRouter", Endpoint: "https://openrouter.ai/api/v1"},
	{ID: "perplexity", Name: "Perplexity", Endpoint: "https://api.perplexity.ai"},
	{ID: "together", Name: "Together AI", Endpoint: "https://api.together.xyz/v1"},
	{ID: "xai", Name: "xAI", Endpoint: "https://api.x.ai/v1"},

	{ID: "lmstudio", Name: "LM Studio", Endpoint: "http://127.0.0.1:1234/v1", Local: true},
	{ID: "ollama", Name: "Ollama", Endpoint: "http://127.0.0.1:11434/v1", Local: true},
	{ID: "vllm", Name: "vLLM", Endpoint: "http://127.0.0.1:8000/v1", Local: true},
}

// Publics lists the providers that are known without being configured.
func Publics() []Public { return slices.Clip(publics) }

// publicAt returns the id of the public provider at an endpoint, with or without its
// version, which is bedrock in all regions; "": none.
func publicAt(normal string) string {
	for i := range publics {
		if !publics[i].Local && publics[i].Endpoint == normal {
			return publics[i].ID
		}
	}
	for i := range publics {
		if p := &publics[i]; p.Wire != "" && withoutVersion(p.Endpoint) == withoutVersion(normal) {
			return p.ID
		}
	}
	if AWSRegion(normal) != "" {
		return bedrock
	}
	return ""
}

// withoutVersion returns an address without a version and the word openai at its end.
func withoutVersion(endpoint string) string {
	endpoint = strings.TrimSuffix(endpoint, "/openai")
	if at := strings.LastIndexByte(endpoint, '/'); strings.HasPrefix(endpoint[at+1:], "v1") {
		return endpoint[:at]
	}
	return endpoint
}

// PublicProvider finds one of them.
func PublicProvider(id string) (Public, bool) {
	for i := range publics {
		if publics[i].ID == id {
			return publics[i], true
		}
	}
	return Public{}, false
}
