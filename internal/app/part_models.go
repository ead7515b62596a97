package app

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"agentd/internal/agents/agent"
	"agentd/internal/agents/provider"
	"agentd/internal/agents/providerkey"
	"agentd/internal/agents/providerkey/providerkeysql"
	"agentd/internal/base/config"
	"agentd/internal/content/knowledge"
	"agentd/internal/edge/audio"
	"agentd/internal/kernel/model"
	"agentd/internal/operation/modeladmin"
	"agentd/internal/wire/anthropicclient"
	"agentd/internal/wire/azureclient"
	"agentd/internal/wire/bedrockclient"
	"agentd/internal/wire/geminiclient"
	"agentd/internal/wire/modelcall"
	"agentd/internal/wire/openaiclient"
	"agentd/internal/wire/outbound"
	"agentd/internal/wire/responsesclient"
)

// signalModelKeys reaches every node when the keys of model providers change;
// the key is the tenant.
const signalModelKeys = "model-keys"

// models is the catalogue of models and the clients that call them.
type models struct {
	cfg       config.Models
	catalogue *model.Catalogue
	wire      *model.Wires
	breaker   *model.Breaker // before every endpoint
	limiter   *model.Limiter // before the breaker
	client    model.Router
	resolver  model.Resolver
	keys      *providerkey.Service // of tenants
	embedder  model.Embedder       // nil: no embedding model is configured
	reranker  knowledge.Reranker   // nil: no endpoint is configured
	admin     *modeladmin.Service  // what the operator sets while the program runs
}

// newModels reads the operator's providers. Endpoints of tenants are reached
// through the guarded client only.
func newModels(p *platform, out *egress) (*models, error) {
	m := &models{cfg: p.cfg.Models}
	providers, err := modelProviders(m.cfg)
	if err != nil {
		return nil, err
	}
	if m.catalogue, err = model.NewCatalogue(providers, m.cfg.Model); err != nil {
		return nil, err
	}
	prices, err := priceList(m.cfg)
	if err != nil {
		return nil, err
	}
	m.catalogue.UsePrices(prices)
	p.models = m.catalogue
	if err := m.checkConfigured(); err != nil {
		return nil, err
	}
	m.admin = modeladmin.New(modeladmin.Deps{
		Settings: p.settings, Catalogue: m.catalogue, Clock: p.clock, Logger: p.log, CheckURL: outbound.CheckURL, Egress: out.checkURL,
		Voice: modeladmin.Voice{Speech: m.cfg.SpeechModel, Name: m.cfg.SpeechVoice, Transcription: m.cfg.TranscriptionModel},
		Base:  model.Offering{Providers: providers, Default: m.cfg.Model, Fallback: m.cfg.Fallback, Prices: prices},
		Health: func(provider string) string {
			status, _ := m.breaker.Health(provider)
			return status
		},
	})
	operator := modelcall.NewTransport()
	p.onStop(operator.CloseIdleConnections)
	wires := modelcall.Config{
		HeaderTimeout: m.cfg.StartTimeout,
		Operator:      operator, Guarded: out.guarded.Transport(), Screened: out.screened.Transport(), Tracer: p.tracer("agentd/model"),
	}
	chat := openaiclient.New(wires)
	m.wire = &model.Wires{Chat: chat, Others: map[model.Wire]model.Adapter{
		model.WireAnthropic: anthropicclient.New(wires),
		model.WireGemini:    geminiclient.New(wires),
		model.WireAzure:     azureclient.New(wires, ""),
		model.WireResponses: responsesclient.New(wires),
		model.WireBedrock:   bedrockclient.NewOn(machineOf(m.cfg.AWSMachine), wires),
	}}
	m.breaker = &model.Breaker{Next: m.wire, Clock: p.clock, Tuning: p.config.Breaker}
	m.limiter = &model.Limiter{Next: m.breaker, Clock: p.clock}
	p.onShare(m.limiter.SetShare)
	observeModels(p.metrics, m.breaker, m.limiter, &modelFailures{log: p.log, clock: p.clock, seen: map[failureKind]*failureCount{}})
	m.client = model.Router{Wire: m.limiter, Forwards: m.limiter}
	m.embedder = newEmbedder(m.cfg, chat, m)
	if c := m.cfg; c.RerankBaseURL != "" {
		m.reranker = chat.Reranker(model.Target{
			Provider: "rerank", Model: c.RerankModel, APIKey: c.RerankAPIKey,
			BaseURL: strings.TrimSuffix(strings.TrimRight(c.RerankBaseURL, "/"), "/rerank"),
		})
	}
	m.keys = providerkey.New(providerkey.Deps{
		Store: providerkeysql.New(p.db), Writer: p.db, Clock: p.clock, Box: p.box, Audit: p.audit,
		Catalogue: m.catalogue, Lister: m.wire, CheckURL: outbound.CheckURL, Egress: out.checkURL,
		OnChange: func(tenant string) { p.hub.Signal(signalModelKeys, tenant) },
	})
	m.resolver = model.Resolver{Catalogue: m.catalogue, Credentials: m.keys}
	return m, nil
}

func (m *models) part(p *platform) part {
	providers := provider.New(provider.Deps{
		Resolver: m.resolver, Credentials: m.keys, Lister: m.wire, Health: m.breaker,
		Voice: func() provider.Voice {
			v := m.admin.Voice()
			return provider.Voice{Speech: v.Speech, Transcription: v.Transcription, Name: cmp.Or(v.Name, audio.DefaultVoice)}
		},
	})
	return part{
		name:     "models",
		routes:   slices.Concat(m.keys.Routes(), providers.Routes(), m.admin.Routes()),
		services: []service{p.onSignal(signalModelKeys, m.keys.Invalidate)},
	}
}

// modelProviders reads the operator's file of providers, with the default
// endpoint first.
func modelProviders(c config.Models) (providers []model.Provider, err error) {
	if c.Providers != "" {
		file, err := os.ReadFile(c.Providers)
		if err != nil {
			return nil, fmt.Errorf("AGENTD_PROVIDERS: %w", err)
		}
		if providers, err = model.ParseProviders(file); err != nil {
			return nil, fmt.Errorf("AGENTD_PROVIDERS: %w", err)
		}
	}
	for i := range providers {
		useAWS(c, &providers[i])
	}
	if c.BaseURL != "" {
		providers = append([]model.Provider{{
			Name: model.DefaultProvider, BaseURL: c.BaseURL, APIKey: c.APIKey,
			Limits: model.Limits{MaxConcurrency: c.MaxConcurrency, TokensPerMinute: c.TokensPerMinute},
		}}, providers...)
	}
	return providers, nil
}

// useAWS sets the keys of the AWS environment for a provider of Bedrock's without any.
func useAWS(c config.Models, p *model.Provider) {
	if cmp.Or(p.Wire, model.WireAt(p.Name, p.BaseURL)) != model.WireBedrock || !p.APIKey.Empty() || p.AWS != nil {
		return
	}
	switch {
	case !c.AWSBearerToken.Empty():
		p.APIKey = c.AWSBearerToken
	case c.AWSAccessKeyID != "":
		p.AWS = &model.AWS{AccessKeyID: c.AWSAccessKeyID, SecretAccessKey: c.AWSSecretAccessKey, SessionToken: c.AWSSessionToken}
	}
}

// machineOf returns where agentd runs.
func machineOf(c config.AWSMachine) bedrockclient.Machine {
	return bedrockclient.Machine{
		TokenFile: c.TokenFile, RoleARN: c.RoleARN, SessionName: c.SessionName, ContainerPath: c.ContainerPath, ContainerURL: c.ContainerURL,
		ContainerToken: c.ContainerToken, ContainerTokenFile: c.ContainerTokenFile, Metadata: c.Metadata, STS: c.STS,
	}
}

// priceList returns the operator's list of public prices, or the one that agentd comes
// with.
func priceList(c config.Models) (*model.PriceList, error) {
	if c.Prices == "" {
		return model.PublicPrices(), nil
	}
	file, err := os.ReadFile(c.Prices)
	if err != nil {
		return nil, fmt.Errorf("AGENTD_MODEL_PRICES: %w", err)
	}
	l, err := model.ParsePriceList(file)
	if err != nil {
		return nil, fmt.Errorf("AGENTD_MODEL_PRICES: %w", err)
	}
	return l, nil
}

// checkConfigured fails where a setting names a model that does not exist.
func (m *models) checkConfigured() error {
	for _, named := range []struct{ setting, ref string }{
		{"AGENTD_MESSAGES_MODEL", m.messagesModel()}, {"AGENTD_FALLBACK_MODEL", m.cfg.Fallback},
	} {
		if named.ref == "" {
			continue
		}
		_, err := m.catalogue.Lookup(named.ref)
		if e, ok := errors.AsType[*model.Error](err); ok {
			return fmt.Errorf("%s: %s", named.setting, e.Detail)
		}
		if err != nil {
			return err
		}
	}
	for _, named := range []struct{ setting, ref string }{
		{"AGENTD_SPEECH_MODEL", m.cfg.SpeechModel}, {"AGENTD_TRANSCRIPTION_MODEL", m.cfg.TranscriptionModel},
	} {
		if named.ref == "" {
			continue
		}
		if to, err := m.catalogue.Lookup(named.ref); err != nil || to.Provider == model.Builtin {
			return fmt.Errorf("%s: %q is no model of a configured provider", named.setting, named.ref)
		}
	}
	return nil
}

// defaultModel is what agents use that name no model.
func (m *models) defaultModel() agent.ModelConfig {
	if ref := m.catalogue.Default(); ref != "" {
		return agent.ModelConfig{Provider: model.OpenAICompat, ModelRef: ref}
	}
	return agent.Echo
}

// messagesModel serves the model names with the reserved prefix of the messages
// route.
func (m *models) messagesModel() string {
	return cmp.Or(m.cfg.MessagesModel, m.catalogue.Default(), model.EchoRef)
}

// presetOf returns what requests for speech of a model use that do not say it.
func (m *models) presetOf(ref string) audio.Preset {
	v := m.admin.VoicePreset(ref)
	return audio.Preset{Voice: cmp.Or(v.Voice, m.admin.Voice().Name), Speed: v.Speed, Instructions: v.Instructions}
}

// newEmbedder returns the client of the embedding model; nil where none is
// configured. The key of the model's endpoint is for that endpoint only.
func newEmbedder(c config.Models, wire *openaiclient.Client, m *models) model.Embedder {
	if c.EmbeddingModel == "" {
		return nil
	}
	target := model.Target{Provider: model.DefaultProvider, Model: c.EmbeddingModel, BaseURL: c.EmbeddingBaseURL, APIKey: c.EmbeddingAPIKey}
	if c.EmbeddingBaseURL == "" {
		target.BaseURL, target.APIKey = c.BaseURL, c.APIKey
		if !c.EmbeddingAPIKey.Empty() {
			target.APIKey = c.EmbeddingAPIKey
		}
	}
	// People paste addresses with the part after /v1.
	target.BaseURL = strings.TrimSuffix(strings.TrimRight(target.BaseURL, "/"), "/embeddings")
	for _, name := range m.catalogue.Providers() { // the same account has the same limits
		if p, ok := m.catalogue.Endpoint(name.Name); ok && p.AccountKey() == target.AccountKey() {
			target.Limits = p.Limits
		}
	}
	return m.limiter.Embedder(m.breaker.Embedder(wire.Embedder(target), target), target)
}
