package audio

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"agentd/internal/agents/modelproxy"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/media"
	"agentd/internal/edge/httpapi"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

// Transcript is a transcription. With verbose_json it has the model's further
// members, such as segments and duration.
type Transcript struct {
	_ struct{} `json:"-" name:"Transcript" additionalProperties:"true"`

	Text string `json:"text" required:"true"`
}

// Limits of a form.
const (
	maxForm  = httpapi.MaxUpload + 64<<10
	maxParts = 50
	maxField = 32 << 10 // bytes of a field other than the file
)

var (
	errNoTranscriptionModel = fault.New(fault.Unsupported, "transcription_not_configured",
		"No transcription model is configured on this deployment; the operator can set AGENTD_TRANSCRIPTION_MODEL or the section voice.")
	errNotForm = fault.New(fault.UnsupportedMedia, "",
		"The body must be multipart/form-data with a boundary and the audio in the field file.")
	errMalformedForm = fault.New(fault.Malformed, "", "The form cannot be read: it is not well-formed multipart/form-data.")
)

func (a *Audio) createTranscription(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	req, named, release, err := readForm(r)
	if err != nil {
		return err
	}
	defer release()
	configured := a.Transcription()
	if configured == "" {
		return errNoTranscriptionModel
	}
	call, err := a.Proxy.Open(r.Context(), who, modelproxy.CallParams{Model: a.chooseModel(named, configured, model.SpeechToText),
		Source: quota.SourceLLM})
	if err != nil {
		return err
	}
	req.Target = call.Target()
	got, err := a.Client.Transcribe(r.Context(), *req)
	if err != nil {
		return modelproxy.AsFault(err)
	}
	call.Used(got.Usage)
	if req.Verbose {
		return httpapi.JSON(w, http.StatusOK, got.JSON)
	}
	return httpapi.JSON(w, http.StatusOK, Transcript{Text: got.Text})
}

// readForm reads a request. Its bytes count against the memory budget until
// release is called.
func readForm(r *http.Request) (req *model.TranscriptionRequest, named string, release func(), err error) {
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, "", nil, errNotForm
	}
	data, release, err := httpapi.ReadMessage(r, maxForm)
	if err != nil {
		return nil, "", nil, err
	}
	if req, named, err = parseForm(data, params["boundary"]); err != nil {
		release()
		return nil, "", nil, err
	}
	return req, named, release, nil
}

// parseForm reads a form, and returns the request and the requested model. Errors:
// fault.Malformed for an invalid form; fault.Invalid with every invalid field.
func parseForm(data []byte, boundary string) (*model.TranscriptionRequest, string, error) {
	form := multipart.NewReader(bytes.NewReader(data), boundary)
	req, fields, file := &model.TranscriptionRequest{}, map[string]string{}, false
	for parts := 0; ; parts++ {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || parts == maxParts {
			return nil, "", errMalformedForm
		}
		if part.FormName() == "file" && !file {
			file = true
			if req.File, err = io.ReadAll(part); err != nil {
				return nil, "", errMalformedForm
			}
			req.Name = media.FileName(part.FileName(), "audio")
			req.Type, _ = media.Clean(part.Header.Get("Content-Type"))
			continue
		}
		text, err := io.ReadAll(io.LimitReader(part, maxField+1))
		if err != nil {
			return nil, "", errMalformedForm
		}
		fields[part.FormName()] = string(text)
	}
	return req, fields["model"], applyFields(req, fields, file)
}

// applyFields sets the fields of the form on the request.
func applyFields(req *model.TranscriptionRequest, fields map[string]string, file bool) error {
	var errs []fault.Field
	add := func(field, message string) { errs = append(errs, fault.Field{Field: field, Message: message}) }
	switch {
	case !file:
		add("file", "the form has no file in this field")
	case len(req.File) == 0:
		add("file", "must not be empty")
	case len(req.File) > httpapi.MaxUpload:
		return fault.New(fault.TooLarge, "", "The file is larger than the limit of 50 MiB.")
	}
	for _, f := range []struct {
		name string
		max  int
	}{{"language", 35}, {"model", 300}, {"prompt", 4096}} {
		if text := fields[f.name]; !utf8.ValidString(text) || utf8.RuneCountInString(text) > f.max {
			add(f.name, "must be text of up to "+strconv.Itoa(f.max)+" characters")
		}
	}
	req.Language, req.Prompt = strings.TrimSpace(fields["language"]), fields["prompt"]
	switch fields["response_format"] {
	case "", "json":
	case "verbose_json":
		req.Verbose = true
	default:
		add("response_format", "must be json or verbose_json")
	}
	if text := strings.TrimSpace(fields["temperature"]); text != "" {
		t, err := strconv.ParseFloat(text, 64)
		if err != nil || !(t >= 0 && t <= 1) {
			add("temperature", "must be a number from 0 to 1")
		}
		req.Temperature = &t
	}
	if errs == nil {
		return nil
	}
	return fault.BadFields(errs...)
}
