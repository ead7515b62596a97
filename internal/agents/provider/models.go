package provider

import (
	"cmp"
	"context"
	"sync"

	"agentd/internal/base/authz"
	"agentd/internal/base/ptr"
	"agentd/internal/kernel/model"
)

type providerIn struct {
	Provider string `path:"provider" doc:"Id of the provider."`
}

// Models are the models that a provider offers.
type Models struct {
	_ struct{} `json:"-" name:"LlmProviderModels"`

	Provider    string         `json:"provider" required:"true"`
	EndpointURL string         `json:"endpoint_url" required:"true" doc:"Empty if the operator of this deployment chose it."`
	Models      []OfferedModel `json:"models" required:"true"`
	Error       string         `json:"error,omitzero" doc:"Why the provider could not be queried; models then has only what the operator lists."`
	EmptyReason string         `json:"empty_reason,omitzero" enum:"no_key,no_answer,none" doc:"Why models is empty: no key is stored, the provider did not answer, or it has no models."`
}

// OfferedModel is a model of a provider.
type OfferedModel struct {
	_ struct{} `json:"-" name:"LlmProviderModel"`

	ID           string       `json:"id" required:"true" doc:"The provider's name for the model."`
	Name         string       `json:"name" required:"true" doc:"Display name."`
	Created      *int64       `json:"created,omitzero" doc:"Unix seconds, if the provider reports it."`
	Capabilities capabilities `json:"capabilities" required:"true" doc:"Unknown capabilities are absent."`
}

type capabilities struct {
	_ struct{} `json:"-" name:"LlmProviderModelCapabilities"`

	Context   int            `json:"max_context_tokens,omitzero"`
	Output    int            `json:"max_output_tokens,omitzero"`
	ToolCalls *bool          `json:"supports_tool_calls,omitzero"`
	Streaming *bool          `json:"supports_streaming,omitzero"`
	JSONMode  *bool          `json:"supports_json_mode,omitzero"`
	Vision    *bool          `json:"supports_vision,omitzero"`
	Modality  model.Modality `json:"modality,omitzero" enum:"chat,stt,tts,image,embedding"`
}

// Reasons for an empty list.
const (
	emptyNoKey    = "no_key"
	emptyNoAnswer = "no_answer"
	emptyNone     = "none"
)

func (s *Service) listModels(ctx context.Context, who authz.Caller, in *providerIn) (Models, error) {
	to, found, err := s.Resolver.Provider(ctx, who.TenantID, in.Provider)
	if err != nil {
		return Models{}, err
	}
	out := Models{Provider: in.Provider, EndpointURL: s.endpoint(to)}
	if !found {
		known, public := model.PublicProvider(in.Provider)
		if !public {
			return Models{}, noProvider(in.Provider)
		}
		out.EndpointURL, out.EmptyReason = known.Endpoint, emptyNoKey
		out.Error = "No key for this provider is stored in this company; store one with PUT /api/v1/llm-credentials/" + known.ID + "."
		return out, nil
	}
	got, err := s.lists.get(ctx, who.TenantID, to)
	if err != nil {
		return Models{}, err
	}
	out.Error = got.failed
	seen := map[string]bool{}
	if !to.Guarded {
		for _, e := range s.Resolver.Catalogue.List() {
			if e.Provider == to.Provider {
				seen[e.Model] = true
				out.Models = append(out.Models, offered(&e))
			}
		}
	}
	for _, l := range got.models {
		if seen[l.ID] {
			continue
		}
		m := OfferedModel{ID: l.ID, Name: cmp.Or(l.Name, l.ID), Capabilities: capabilities{Context: l.Context}}
		if l.Created > 0 {
			m.Created = &l.Created
		}
		out.Models = append(out.Models, m)
	}
	switch {
	case len(out.Models) > 0:
	case out.Error != "":
		out.EmptyReason = emptyNoAnswer
	default:
		out.EmptyReason = emptyNone
	}
	return out, nil
}

// endpoint returns the address of a target, unless the operator keeps it private.
func (s *Service) endpoint(to model.Target) string {
	if to.Guarded {
		return to.BaseURL
	}
	for _, p := range s.Resolver.Catalogue.Providers() {
		if p.Name == to.Provider {
			return p.Public
		}
	}
	return ""
}

func offered(e *model.Entry) OfferedModel {
	return OfferedModel{ID: e.Model, Name: cmp.Or(e.Facts.Title, e.Model), Capabilities: capabilities{
		Context: e.Context, Output: e.Facts.MaxOutput, ToolCalls: e.Facts.ToolCalls, Streaming: e.Facts.Streaming,
		JSONMode: e.Facts.JSONMode, Vision: e.Facts.Vision, Modality: e.Facts.Modality,
	}}
}

// Model is a model that can be called. The numbers of what is unknown are 0, and its
// texts empty.
type Model struct {
	_ struct{} `json:"-" name:"LlmModel"`

	ID          string          `json:"id" required:"true" doc:"<provider>/<model>."`
	DisplayName string          `json:"display_name" required:"true"`
	Provider    string          `json:"provider" required:"true"`
	Tier        string          `json:"tier" required:"true" doc:"Set by the operator. Empty: none."`
	Pricing     pricing         `json:"pricing" required:"true"`
	Context     int             `json:"max_context_tokens" required:"true" doc:"0: unknown."`
	Output      int             `json:"max_output_tokens" required:"true" doc:"0: unknown."`
	ToolCalls   bool            `json:"supports_tool_calls" required:"true" doc:"Where it is unknown: true for a model that chats, as runs assume."`
	Streaming   bool            `json:"supports_streaming" required:"true" doc:"Where it is unknown: true for a model that chats, as runs assume."`
	JSONMode    bool            `json:"supports_json_mode" required:"true" doc:"Where it is unknown: false."`
	Vision      bool            `json:"supports_vision" required:"true" doc:"Where it is unknown: false."`
	Modality    *model.Modality `json:"modality" required:"true" enum:"chat,stt,tts,image,embedding"`
}

type pricing struct {
	_ struct{} `json:"-" name:"LlmModelPricing"`

	Input  float64 `json:"input_usd_per_mtok" required:"true"`
	Output float64 `json:"output_usd_per_mtok" required:"true"`
	Known  bool    `json:"known" required:"true" doc:"Whether the operator set a price. False: the prices are 0 because they are unknown."`
}

type modelList struct {
	_ struct{} `json:"-" name:"LlmModels"`

	Models          []Model `json:"models" required:"true"`
	DefaultProvider *string `json:"default_provider" required:"true"`
	DefaultModel    *string `json:"default_model" required:"true" doc:"Id of the model that is used if none is named."`

	Object string      `json:"object" required:"true" enum:"list"`
	Data   []listEntry `json:"data" required:"true" doc:"The same models, in the form of OpenAI's API."`
}

type listEntry struct {
	_ struct{} `json:"-" name:"LlmModelEntry"`

	ID      string `json:"id" required:"true"`
	Object  string `json:"object" required:"true" enum:"model"`
	Created int64  `json:"created" required:"true" doc:"Always 0."`
	OwnedBy string `json:"owned_by" required:"true" doc:"The provider."`
}

func (s *Service) llmModels(ctx context.Context, who authz.Caller, _ *struct{}) (modelList, error) {
	out := modelList{Object: "list"}
	out.DefaultProvider, out.DefaultModel = s.split(s.defaultRef())
	entries := s.Resolver.Catalogue.List()
	for i := range entries {
		out.Models = append(out.Models, listedModel(&entries[i]))
	}
	if out.DefaultModel != nil && *out.DefaultModel == model.EchoRef {
		chat := model.Chat
		out.Models = append(out.Models, Model{
			ID: model.EchoRef, DisplayName: "Echo (repeats its input; not a language model)", Provider: model.Builtin,
			Pricing: pricing{Known: true}, Streaming: true, Modality: &chat,
		})
	}
	own, err := s.tenantsModels(ctx, who.TenantID)
	out.Models = append(out.Models, own...)
	for i := range out.Models {
		out.Data = append(out.Data, listEntry{ID: out.Models[i].ID, Object: "model", OwnedBy: out.Models[i].Provider})
	}
	return out, err
}

func listedModel(e *model.Entry) Model {
	f := &e.Facts
	chats := f.Modality == model.Chat
	m := Model{
		ID: e.Ref, DisplayName: cmp.Or(f.Title, e.Model), Provider: e.Provider, Tier: f.Tier, Context: e.Context, Output: f.MaxOutput,
		ToolCalls: orElse(f.ToolCalls, chats), Streaming: orElse(f.Streaming, chats), JSONMode: ptr.Value(f.JSONMode),
		Vision: ptr.Value(f.Vision), Modality: &f.Modality,
	}
	if e.Price != nil {
		m.Pricing = pricing{Input: e.Price.Input, Output: e.Price.Output, Known: true}
	}
	return m
}

func orElse(fact *bool, unknown bool) bool {
	if fact == nil {
		return unknown
	}
	return *fact
}

// tenantsModels returns the models of the tenant's own providers, as their endpoints
// list them. All are queried at once; one that does not answer adds none.
func (s *Service) tenantsModels(ctx context.Context, tenant string) ([]Model, error) {
	kept, err := s.Credentials.All(ctx, tenant)
	if err != nil {
		return nil, err
	}
	var targets []model.Target
	for _, name := range tenantProviders(kept) {
		if !kept[name].Shared {
			continue // its models cannot be named without the key
		}
		to, found, err := s.Resolver.Provider(ctx, tenant, name)
		if err != nil {
			return nil, err
		}
		if found {
			targets = append(targets, to)
		}
	}
	got := make([]*modelListing, len(targets))
	var all sync.WaitGroup
	for i, to := range targets {
		all.Go(func() {
			if l, err := s.lists.get(ctx, tenant, to); err == nil {
				got[i] = l
			}
		})
	}
	all.Wait()
	var models []Model
	for i, l := range got {
		if l == nil {
			continue
		}
		for _, m := range l.models {
			models = append(models, Model{
				ID: targets[i].Provider + "/" + m.ID, DisplayName: cmp.Or(m.Name, m.ID), Provider: targets[i].Provider, Context: m.Context,
				ToolCalls: true, Streaming: true,
			})
		}
	}
	return models, nil
}
