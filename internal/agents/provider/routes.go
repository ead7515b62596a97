package provider

import (
	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

// Routes of the area Providers that only tell.
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
	defaults := keyed(all+"/platform-defaults", "getPlatformLlmDefaults", "Which model is asked where none is named", "")
	defaults.Role, defaults.Public = "", true
	return []route.Route{
		route.Action(keyed(all, "listProviders", "List model providers, and which of them can be asked", "Health is as the calls of this deployment saw it."), s.listProviders),
		route.Action(keyed(all+"/{provider}/models", "listProviderModels", "List the models of a provider",
			"Asks the provider, at most once a minute, and waits ten seconds for it. A provider that does not answer, or that there is no key of, is 200 with the reason."), s.listModels),
		route.Action(keyed(all+"/image-providers", "listImageProviders", "List who makes pictures here", ""), s.imageProviders),
		route.Action(keyed(all+"/video-providers", "listVideoProviders", "List who makes videos here: nobody", ""), s.videoProviders),
		route.Action(keyed(all+"/voice-providers", "listVoiceProviders", "List who speaks and listens here", ""), s.voiceProviders),
		route.Action(defaults, s.defaults),
		route.Action(scoped("/api/v1/llm/models", "listLlmModels", "List the models that can be asked",
			"Those of the deployment's catalogue, and those of the company's own providers that answer within ten seconds. What is not known of a model is null."), s.llmModels),
		route.Action(scoped("/api/v1/llm/voice-config", "getVoiceConfig", "What speaks and listens here", ""), s.voiceConfig),
	}
}
