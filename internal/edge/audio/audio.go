// Package audio serves OpenAI's audio API by the model proxy: speech, which is
// streamed as the model makes it, and transcriptions. Errors are problem documents.
package audio

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"

	"agentd/internal/agents/modelproxy"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

// DefaultVoice is the voice if neither the request nor the operator names one,
// because endpoints require one.
const DefaultVoice = "alloy"

// Audio serves the routes. The models are <provider>/<model>; for an empty one the
// route answers 501.
type Audio struct {
	Proxy         *modelproxy.Proxy
	Client        model.AudioClient
	Catalogue     *model.Catalogue
	Speech        func() string
	Transcription func() string
	// Preset returns what requests for speech of a model use that do not say it.
	Preset func(ref string) Preset
}

// Preset is how a model speaks. Empty members are the endpoint's.
type Preset struct {
	Voice        string
	Speed        float64
	Instructions string
}

// Routes returns the routes.
func (a *Audio) Routes() []httpapi.Raw {
	row := func(path, id, summary, doc string) route.Row {
		return route.Row{
			Method: "POST", Path: "/api/v1/llm/audio/" + path, ID: id, Tag: "Providers", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{"runs:create"}, And: []authz.Scope{"agents:read"}, Role: authz.Developer, Outside: true,
			Errors: []int{400, 429, 501, 502},
		}
	}
	speech := row("speech", "createSpeech", "Create speech from text",
		"Streams the audio as the model generates it. model can name a text-to-speech model of the catalogue; for any other value the "+
			"deployment's default is used. 501 if there is none.")
	speech.BodyOf = reflect.TypeFor[SpeechRequest]()
	transcribe := row("transcriptions", "createTranscription", "Transcribe audio",
		"A form with the field file, of up to 50 MiB, and optionally language, prompt, temperature and response_format (json or verbose_json). "+
			"model can name a speech-to-text model of the catalogue; for any other value the deployment's default is used. 501 if there is none.")
	transcribe.Uploads, transcribe.AnswerOf = []string{route.Form}, reflect.TypeFor[Transcript]()
	return []httpapi.Raw{
		{Row: speech, Media: "audio/*", Serve: a.createSpeech},
		{Row: transcribe, Serve: a.createTranscription},
	}
}

// SpeechRequest is the body of a request for speech.
type SpeechRequest struct {
	_ struct{} `json:"-" name:"SpeechCreate"`

	Input        string   `json:"input" required:"true" minLength:"1" maxLength:"4096" doc:"The text to speak."`
	Model        string   `json:"model" maxLength:"300" doc:"<provider>/<model>. Default: the operator's model for speech."`
	Voice        string   `json:"voice" maxLength:"100" doc:"Name of a voice of the model. Default: the operator's, else alloy."`
	Format       string   `json:"response_format" enum:"mp3,opus,aac,flac,wav,pcm" default:"mp3" doc:"Format of the audio."`
	Speed        *float64 `json:"speed,omitzero" nullable:"true" minimum:"0.25" maximum:"4" doc:"How fast it is spoken; 1 is the normal speed. Default: 1."`
	Instructions string   `json:"instructions,omitzero" maxLength:"4096" doc:"How to speak, for models that support it."`
}

var errNoSpeechModel = fault.New(fault.Unsupported, "speech_not_configured",
	"No speech model is configured on this deployment; the operator can set AGENTD_SPEECH_MODEL or the section voice.")

func (a *Audio) createSpeech(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	req, err := httpapi.DecodeBody[SpeechRequest](r)
	if err != nil {
		return err
	}
	if strings.TrimSpace(req.Input) == "" {
		return fault.BadFields(fault.Field{Field: "input", Message: "must not be blank"})
	}
	configured := a.Speech()
	if configured == "" {
		return errNoSpeechModel
	}
	call, err := a.Proxy.Open(r.Context(), who, modelproxy.CallParams{Model: a.chooseModel(req.Model, configured, model.TextToSpeech),
		Source: quota.SourceLLM})
	if err != nil {
		return err
	}
	target := call.Target()
	preset := a.Preset(target.Provider + "/" + target.Model)
	speechReq := model.SpeechRequest{
		Target: target, Input: req.Input, Voice: cmp.Or(req.Voice, preset.Voice, DefaultVoice), Format: req.Format,
		Speed: preset.Speed, Instructions: cmp.Or(req.Instructions, preset.Instructions),
	}
	if req.Speed != nil {
		speechReq.Speed = *req.Speed
	}
	speech, err := a.Client.Speak(r.Context(), speechReq)
	if err != nil {
		return modelproxy.AsFault(err)
	}
	defer speech.Audio.Close()
	call.Used(model.Usage{}) // endpoints report no usage for speech
	return copyAudio(w, speech)
}

// chunkSize is how many bytes of audio are sent at once.
const chunkSize = 32 << 10

// copyAudio sends audio as it arrives. The first piece is awaited before the header,
// so that an immediate failure is an error response; a later one closes the
// connection, so that no client takes a part for the whole.
func copyAudio(w http.ResponseWriter, speech *model.Speech) error {
	buf := make([]byte, chunkSize)
	out := http.NewResponseController(w)
	for started := false; ; {
		n, err := speech.Audio.Read(buf)
		if err != nil && !errors.Is(err, io.EOF) {
			return modelproxy.AsFault(err)
		}
		if !started && (n > 0 || err != nil) {
			if started = true; n == 0 {
				return fault.New(fault.Upstream, "model_error", "The model endpoint sent no audio.")
			}
			h := w.Header()
			h["Content-Type"] = []string{speech.Type}
			h["Cache-Control"] = []string{"no-store"}
			w.WriteHeader(http.StatusOK)
		}
		if n > 0 {
			if _, gone := w.Write(buf[:n]); gone != nil {
				return nil // the client is gone, which the server notices
			}
			_ = out.Flush() // the next write notices a client that is gone
		}
		if err != nil {
			return nil
		}
	}
}

// chooseModel returns the requested model if the catalogue lists it for the modality,
// otherwise the operator's. Clients send the model names of other services by
// default, and accept any model.
func (a *Audio) chooseModel(requested, configured string, modality model.Modality) string {
	if requested == "" {
		return configured
	}
	for _, e := range a.Catalogue.List() {
		if e.Facts.Modality == modality && (e.Ref == requested || e.Ref == model.DefaultProvider+"/"+requested) {
			return e.Ref
		}
	}
	return configured
}
