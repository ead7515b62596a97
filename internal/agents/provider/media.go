package provider

import (
	"cmp"
	"context"
	"slices"

	"agentd/internal/base/authz"
	"agentd/internal/kernel/model"
)

// MediaProvider is a provider of image, video or voice models.
type MediaProvider struct {
	_ struct{} `json:"-" name:"LlmMediaProvider"`

	ID         string       `json:"id" required:"true"`
	Name       string       `json:"name" required:"true"`
	Configured bool         `json:"configured" required:"true"`
	Local      bool         `json:"local" required:"true"`
	Models     []mediaModel `json:"models" required:"true"`
}

type mediaModel struct {
	_ struct{} `json:"-" name:"LlmMediaModel"`

	ID       string         `json:"id" required:"true" doc:"<provider>/<model>."`
	Name     string         `json:"name" required:"true"`
	Modality model.Modality `json:"modality" required:"true" enum:"chat,stt,tts,image,embedding"`
	Default  bool           `json:"default" required:"true" doc:"Used if no model is named."`
}

type mediaProviderList struct {
	_ struct{} `json:"-" name:"LlmMediaProviders"`

	Providers []MediaProvider `json:"providers" required:"true"`
}

// mediaProviders returns the providers of the operator's models with these
// modalities, with those models.
func (s *Service) mediaProviders(modalities ...model.Modality) mediaProviderList {
	out := mediaProviderList{}
	defaults, voice := map[string]model.Modality{}, s.voice()
	for modality, ref := range map[model.Modality]string{model.TextToSpeech: voice.Speech, model.SpeechToText: voice.Transcription} {
		if _, whole := s.split(ref); whole != nil && slices.Contains(modalities, modality) {
			defaults[*whole] = modality
		}
	}
	if slices.Contains(modalities, model.Pictures) {
		if to, err := s.Resolver.Catalogue.ImageTarget("", ""); err == nil {
			defaults[to.Provider+"/"+to.Model] = model.Pictures
		}
	}
	entries := s.Resolver.Catalogue.List()
	for _, p := range s.Resolver.Catalogue.Providers() {
		found := MediaProvider{ID: p.Name, Name: p.Title, Configured: true}
		for i := range entries {
			e := &entries[i]
			modality, chosen := defaults[e.Ref]
			if e.Provider != p.Name || !chosen && !slices.Contains(modalities, e.Facts.Modality) {
				continue
			}
			if !chosen {
				modality = e.Facts.Modality
			}
			found.Models = append(found.Models, mediaModel{ID: e.Ref, Name: cmp.Or(e.Facts.Title, e.Model), Modality: modality, Default: chosen})
			delete(defaults, e.Ref)
		}
		for _, ref := range []string{voice.Speech, voice.Transcription} { // configured but not in the catalogue
			provider, whole := s.split(ref)
			if whole == nil || *provider != p.Name {
				continue
			}
			if modality, chosen := defaults[*whole]; chosen {
				found.Models = append(found.Models, mediaModel{ID: *whole, Name: (*whole)[len(p.Name)+1:], Modality: modality, Default: true})
				delete(defaults, *whole)
			}
		}
		if len(found.Models) > 0 {
			out.Providers = append(out.Providers, found)
		}
	}
	return out
}

func (s *Service) imageProviders(context.Context, authz.Caller, *struct{}) (mediaProviderList, error) {
	return s.mediaProviders(model.Pictures), nil
}

// videoProviders returns an empty list: no operation generates videos.
func (s *Service) videoProviders(context.Context, authz.Caller, *struct{}) (mediaProviderList, error) {
	return mediaProviderList{}, nil
}

func (s *Service) voiceProviders(context.Context, authz.Caller, *struct{}) (mediaProviderList, error) {
	return s.mediaProviders(model.TextToSpeech, model.SpeechToText), nil
}

// Paths of the audio routes.
const (
	SpeechPath        = "/api/v1/llm/audio/speech"
	TranscriptionPath = "/api/v1/llm/audio/transcriptions"
)

// VoiceConfig is the configuration of speech and transcription.
type VoiceConfig struct {
	_ struct{} `json:"-" name:"VoiceConfig"`

	STT listening `json:"stt" required:"true"`
	TTS speaking  `json:"tts" required:"true"`
}

type listening struct {
	_ struct{} `json:"-" name:"VoiceConfigListening"`

	Configured bool    `json:"configured" required:"true"`
	Provider   *string `json:"provider,omitzero"`
	Model      *string `json:"model,omitzero" doc:"As <provider>/<model>."`
	Endpoint   string  `json:"endpoint" required:"true" doc:"Path of the operation."`
}

type speaking struct {
	_ struct{} `json:"-" name:"VoiceConfigSpeaking"`

	Configured bool    `json:"configured" required:"true"`
	Provider   *string `json:"provider,omitzero"`
	Model      *string `json:"model,omitzero" doc:"As <provider>/<model>."`
	Endpoint   string  `json:"endpoint" required:"true" doc:"Path of the operation."`
	Voice      string  `json:"voice,omitzero" doc:"Used if the request names none."`
}

func (s *Service) voiceConfig(context.Context, authz.Caller, *struct{}) (VoiceConfig, error) {
	out := VoiceConfig{STT: listening{Endpoint: TranscriptionPath}, TTS: speaking{Endpoint: SpeechPath}}
	voice := s.voice()
	out.STT.Provider, out.STT.Model = s.split(voice.Transcription)
	out.TTS.Provider, out.TTS.Model = s.split(voice.Speech)
	out.STT.Configured, out.TTS.Configured = out.STT.Model != nil, out.TTS.Model != nil
	if out.TTS.Configured {
		out.TTS.Voice = voice.Name
	}
	return out, nil
}
