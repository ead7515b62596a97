package app

import (
	"fmt"

	"agentd/internal/agents/provider"
	"agentd/internal/agents/providerkey"
	"agentd/internal/agents/providerkey/providerkeysql"
	"agentd/internal/base/route"
	"agentd/internal/edge/audio"
	"agentd/internal/edge/httpapi"
	"agentd/internal/kernel/model"
	"agentd/internal/wire/outbound"
)

// signalModelKeys tells every node whose keys of model providers changed; the
// key is the tenant.
const signalModelKeys = "model-keys"

// buildResolver makes what finds models, with the keys that tenants keep. Error:
// a model that the operator names and that is none.
func (a *App) buildResolver() (model.Resolver, error) {
	c := a.cfg.Models
	for name, ref := range map[string]string{"AGENTD_SPEECH_MODEL": c.SpeechModel, "AGENTD_TRANSCRIPTION_MODEL": c.TranscriptionModel} {
		if ref == "" {
			continue
		}
		if to, err := a.models.Lookup(ref); err != nil || to.Provider == model.Builtin {
			return model.Resolver{}, fmt.Errorf("%s: %q is no model of a configured provider", name, ref)
		}
	}
	a.keys = providerkey.New(providerkey.Deps{
		Store: providerkeysql.New(a.db), Writer: a.db, Clock: a.clock, Box: a.box, Audit: a.audit,
		Catalogue: a.models, Lister: a.wire, CheckURL: outbound.CheckURL,
		OnChange: func(tenant string) { a.hub.Signal(signalModelKeys, tenant) },
	})
	a.onStop(stopper(a.hub.OnSignal(signalModelKeys, a.keys.Invalidate)))
	return model.Resolver{Catalogue: a.models, Credentials: a.keys}, nil
}

// modelRoutes are the operations on keys, and those that tell of providers and
// models.
func (a *App) modelRoutes() []route.Route {
	c := a.cfg.Models
	told := provider.New(provider.Deps{
		Resolver: model.Resolver{Catalogue: a.models, Credentials: a.keys}, Credentials: a.keys, Lister: a.wire, Health: a.breaker, Fallback: a.gateway.Fallback,
		Voice: provider.Voice{Speech: c.SpeechModel, Transcription: c.TranscriptionModel, Name: a.voice()},
	})
	return append(a.keys.Routes(), told.Routes()...)
}

// audio gives the routes that speak and listen.
func (a *App) audio() []httpapi.Raw {
	c := a.cfg.Models
	routes := &audio.Audio{
		Proxy: a.gateway, Client: a.breaker, Catalogue: a.models, Speech: c.SpeechModel, Transcription: c.TranscriptionModel, Voice: a.voice(),
	}
	return routes.Routes()
}

// voice is that of those who ask for none.
func (a *App) voice() string {
	if v := a.cfg.Models.SpeechVoice; v != "" {
		return v
	}
	return audio.DefaultVoice
}
