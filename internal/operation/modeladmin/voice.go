package modeladmin

import (
	"fmt"
	"maps"
	"slices"

	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/kernel/model"
	"agentd/internal/operation/setting"
)

// Voice is the models of speech and of transcription that requests use which name none.
type Voice struct {
	_ struct{} `json:"-" name:"AdminConfigVoice"`

	Speech        string `json:"speech_model" maxLength:"300" doc:"Model that speaks, as <provider>/<model>, in place of AGENTD_SPEECH_MODEL; empty: /llm/audio/speech answers 501."`
	Name          string `json:"speech_voice" maxLength:"100" doc:"Voice of requests that name none and whose model has no preset, in place of AGENTD_SPEECH_VOICE; empty: alloy."`
	Transcription string `json:"transcription_model" maxLength:"300" doc:"Model that writes down what is said, as <provider>/<model>, in place of AGENTD_TRANSCRIPTION_MODEL; empty: /llm/audio/transcriptions answers 501."`
}

// VoicePresets is how models speak.
type VoicePresets struct {
	_ struct{} `json:"-" name:"AdminConfigVoicePresets"`

	Models map[string]VoicePreset `json:"models" maxProperties:"200" doc:"By model, as <provider>/<model>."`
}

// VoicePreset is what requests for speech of a model use that do not say it.
type VoicePreset struct {
	_ struct{} `json:"-" name:"AdminConfigVoicePreset"`

	Voice        string  `json:"voice,omitzero" maxLength:"100" doc:"Name of a voice of the model. Left out: speech_voice of the section voice."`
	Speed        float64 `json:"speed,omitzero" minimum:"0.25" maximum:"4" doc:"How fast it is spoken. Left out: the model's own speed."`
	Instructions string  `json:"instructions,omitzero" maxLength:"4096" doc:"How to speak, for models that support it."`
}

func (s *Service) addVoice(d Deps) {
	s.voice = setting.Add(d.Settings, &setting.Section[Voice]{Name: "voice", Initial: d.Voice, Check: s.checkVoice})
	s.presets = setting.Add(d.Settings, &setting.Section[VoicePresets]{
		Name: "voice-presets", Initial: VoicePresets{Models: map[string]VoicePreset{}}, Check: s.checkPresets,
	})
}

// Voice returns the models of speech and of transcription.
func (s *Service) Voice() *Voice { return s.voice.Get() }

// VoicePreset returns what requests for speech of a model use that do not say it.
func (s *Service) VoicePreset(ref string) VoicePreset { return s.presets.Get().Models[ref] }

// callable reports whether a model is one of a provider that can be called.
func (s *Service) callable(ref string) bool {
	to, err := s.Catalogue.Lookup(ref)
	return err == nil && to.Provider != model.Builtin
}

func (s *Service) checkVoice(v *Voice) error {
	var wrong []fault.Field
	for _, one := range []struct{ field, ref string }{{"speech_model", v.Speech}, {"transcription_model", v.Transcription}} {
		if one.ref != "" && !s.callable(one.ref) {
			wrong = append(wrong, fault.Field{Field: one.field, Message: "must be <provider>/<model>, of a provider that can be called"})
		}
	}
	if wrong != nil {
		return fault.BadFields(wrong...)
	}
	return nil
}

func (s *Service) checkPresets(p *VoicePresets) error {
	var wrong []fault.Field
	for _, ref := range slices.Sorted(maps.Keys(p.Models)) {
		to, err := s.Catalogue.Lookup(ref)
		if err != nil || to.Provider+"/"+to.Model != ref {
			wrong = append(wrong, fault.Field{
				Field: fmt.Sprintf("models[%q]", ref), Message: "must be <provider>/<model>, of a provider that can be called",
			})
		}
	}
	if wrong != nil {
		return fault.BadFields(wrong...)
	}
	return nil
}

func (s *Service) voiceRoutes() []route.Route {
	all := setting.Routes(s.voice, setting.Published[Voice]{
		Name: "voice", GetID: "adminGetVoiceConfig", PutID: "adminPutVoiceConfig", What: "the models of speech and transcription",
		Doc: "Which models speak and write down speech for requests that name none.", Example: `{"speech_voice": "alloy"}`,
	})
	return append(all, setting.Routes(s.presets, setting.Published[VoicePresets]{
		Name: "voice-presets", GetID: "adminGetVoicePresets", PutID: "adminPutVoicePresets", What: "how models speak",
		Doc: "Voice, speed and instructions of requests for speech that do not say them, by model.", Example: `{"models": {}}`,
	})...)
}
