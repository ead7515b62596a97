package provider

import (
	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

// Routes returns the routes that list providers and models.
func (s *Service) Routes() []route.Route {
	const all = "/api/v1/providers"
	keyed := func(path, id, summary, doc string) route.Row {
		return route.Row{Method: "GET", Path: path, ID: id, Tag: "Providers", Summary: summary, Doc: doc, Role: authz.Viewer}
	}
	scoped := func(path, id, summary, doc string) route.Row {
		row := keyed(path, id, summary, doc)
		row.Scopes = []authz.Scope{"agents:read"}
		return row
	}
	defaults := keyed(all+"/platform-defaults", "getPlatformLlmDefaults", "Get the platform's default models", "")
	defaults.Role, defaults.Public = "", true
	return []route.Route{
		route.Action(keyed(all, "listProviders", "List model providers",
			"Shows which of them can be used. Health is as observed by this deployment's calls."), s.listProviders),
		route.Action(keyed(all+"/{provider}/models", "listProviderModels", "List the models of a provider",
			"Queries the provider, at most once a minute and for at most ten seconds. If it does not answer or no key is stored, the "+
				"status is 200 with the reason."), s.listModels),
		route.Action(keyed(all+"/image-providers", "listImageProviders", "List image providers", ""), s.imageProviders),
		route.Action(keyed(all+"/video-providers", "listVideoProviders", "List video providers", ""), s.videoProviders),
		route.Action(keyed(all+"/voice-providers", "listVoiceProviders", "List voice providers", ""), s.voiceProviders),
		route.Action(defaults, s.defaults),
		route.Action(scoped("/api/v1/llm/models", "listLlmModels", "List available models",
			"The models of the deployment's catalogue and of the company's own providers that answer within ten seconds. Unknown facts "+
				"are null."), s.llmModels),
		route.Action(scoped("/api/v1/llm/voice-config", "getVoiceConfig", "Get the voice configuration", ""), s.voiceConfig),
	}
}
