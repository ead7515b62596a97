// Package audio is the model proxy's routes that speak and listen, in OpenAI's
// audio shape (behaviours.md section 31): texts go in and sound comes out as it
// is made, or the other way round. Refusals are problem documents.
package audio

import (
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

// DefaultVoice is the voice of those who ask for none where the operator names
// none either: endpoints want one.
const DefaultVoice = "alloy"

// Audio serves the routes. The models are <provider>/<model>; "": the operator
// configured none, and the route is 501.
type Audio struct {
	Proxy         *modelproxy.Proxy
	Client        model.AudioClient
	Catalogue     *model.Catalogue
	Speech        string
	Transcription string
	Voice         string
}

// Routes lists them.
func (a *Audio) Routes() []httpapi.Raw {
	row := func(path, id, summary, doc string) route.Row {
		return route.Row{
			Method: "POST", Path: "/api/v1/llm/audio/" + path, ID: id, Tag: "Providers", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{"runs:create"}, And: []authz.Scope{"agents:read"}, Role: authz.Developer, Outside: true, Errors: []int{400, 429, 501, 502},
		}
	}
	speech := row("speech", "createSpeech", "Have a text spoken",
		"The sound is sent as the model makes it. A model of the catalogue that speaks can be named; whatever else model is, the operator's choice speaks. 501 where there is none.")
	speech.BodyOf = reflect.TypeFor[SpeechRequest]()
	listen := row("transcriptions", "createTranscription", "Have speech written down",
		"A form with the field file, of up to 50 MiB, and language, prompt, temperature and response_format (json or verbose_json) if wanted. "+
			"A model of the catalogue that listens can be named; whatever else model is, the operator's choice listens. 501 where there is none.")
	listen.Uploads, listen.AnswerOf = []string{route.Form}, reflect.TypeFor[Transcript]()
	return []httpapi.Raw{
		{Row: speech, Media: "audio/*", Serve: a.createSpeech},
		{Row: listen, Serve: a.createTranscription},
	}
}

// SpeechRequest is a text to be spoken.
type SpeechRequest struct {
	_ struct{} `json:"-" name:"SpeechCreate"`

	Input        string   `json:"input" required:"true" minLength:"1" maxLength:"4096"`
	Model        string   `json:"model" maxLength:"300"`
	Voice        string   `json:"voice" maxLength:"100"`
	Format       string   `json:"response_format" enum:"mp3,opus,aac,flac,wav,pcm" default:"mp3"`
	Speed        *float64 `json:"speed,omitzero" nullable:"true" minimum:"0.25" maximum:"4"`
	Instructions string   `json:"instructions,omitzero" maxLength:"4096" doc:"How to speak, for models that take it."`
}

var errNoSpeechModel = fault.New(fault.Unsupported, "speech_not_configured",
	"No model that speaks is configured on this deployment; its operator can set AGENTD_SPEECH_MODEL.")

func (a *Audio) createSpeech(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	req, err := httpapi.DecodeBody[SpeechRequest](r)
	if err != nil {
		return err
	}
	if strings.TrimSpace(req.Input) == "" {
		return fault.BadFields(fault.Field{Field: "input", Message: "it is blank"})
	}
	if a.Speech == "" {
		return errNoSpeechModel
	}
	call, err := a.Proxy.Open(r.Context(), who, modelproxy.CallParams{Model: a.chooseModel(req.Model, a.Speech, model.TextToSpeech), Source: quota.SourceLLM})
	if err != nil {
		return err
	}
	said := model.SpeechRequest{Target: call.Target(), Input: req.Input, Voice: req.Voice, Format: req.Format, Instructions: req.Instructions}
	if said.Voice == "" {
		said.Voice = a.Voice
	}
	if said.Voice == "" {
		said.Voice = DefaultVoice
	}
	if req.Speed != nil {
		said.Speed = *req.Speed
	}
	speech, err := a.Client.Speak(r.Context(), said)
	if err != nil {
		return modelproxy.AsFault(err)
	}
	defer speech.Audio.Close()
	call.Used(model.Usage{}) // endpoints say nothing of what speaking takes
	return copyAudio(w, speech)
}

// chunkSize is how much sound is sent at once, at most.
const chunkSize = 32 << 10

// copyAudio sends sound as it comes. The first of it comes before the header, so that
// what breaks at once is a refusal; what breaks later cuts the connection, so
// that nobody takes a part for the whole.
func copyAudio(w http.ResponseWriter, speech *model.Speech) error {
	buf := make([]byte, chunkSize)
	out := http.NewResponseController(w)
	for begun := false; ; {
		n, err := speech.Audio.Read(buf)
		if err != nil && !errors.Is(err, io.EOF) {
			return modelproxy.AsFault(err)
		}
		if !begun && (n > 0 || err != nil) {
			if begun = true; n == 0 {
				return fault.New(fault.Upstream, "model_error", "The model endpoint sent no audio.")
			}
			h := w.Header()
			h["Content-Type"] = []string{speech.Type}
			h["Cache-Control"] = []string{"no-store"}
			w.WriteHeader(http.StatusOK)
		}
		if n > 0 {
			if _, gone := w.Write(buf[:n]); gone != nil {
				return nil // the client is gone, which the server sees
			}
			_ = out.Flush() // a client that went away is seen by the next write
		}
		if err != nil {
			return nil
		}
	}
}

// chooseModel is the model to ask: the one that was named, if the catalogue lists it
// for this, or else the operator's choice. Clients name models of other
// services without asking, and mean whatever there is.
func (a *Audio) chooseModel(asked, choice string, modality model.Modality) string {
	if asked == "" {
		return choice
	}
	for _, e := range a.Catalogue.List() {
		if e.Facts.Modality == modality && (e.Ref == asked || e.Ref == model.DefaultProvider+"/"+asked) {
			return e.Ref
		}
	}
	return choice
}
