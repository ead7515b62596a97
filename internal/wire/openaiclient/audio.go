package openaiclient

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/media"
	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// Limits of audio calls.
const (
	maxSpeech     = 32 << 20 // bytes of an answer
	maxTranscript = 8 << 20
	speechTimeout = 5 * time.Minute // until the last byte
	speechIdle    = time.Minute     // until the first byte, and between two
	listenTimeout = 10 * time.Minute
)

var _ model.AudioClient = (*Client)(nil)

// audioTypes are the formats of speech.
var audioTypes = map[string]string{
	"": "audio/mpeg", "mp3": "audio/mpeg", "opus": "audio/ogg", "aac": "audio/aac", "flac": "audio/flac", "wav": "audio/wav",
	"pcm": "audio/pcm",
}

// Speak implements [model.AudioClient] by POST {base}/audio/speech, without
// retries: speech that was generated and lost has been charged.
func (c *Client) Speak(ctx context.Context, req model.SpeechRequest) (*model.Speech, error) {
	transport, err := c.Transport(&req.Target)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithCancelCause(ctx)
	watch := modelcall.NewWatchdog(cancel, speechTimeout)
	out := &speech{ctx: within, req: &model.Request{Target: req.Target}, watch: watch, cancel: cancel}
	fail := func(err error) (*model.Speech, error) {
		out.Close()
		return nil, cmp.Or(ctx.Err(), err)
	}
	q := modelcall.Call{Path: "/audio/speech", Body: encodeSpeech(req), Accept: "audio/*"}
	call, err := q.Request(within, &req.Target)
	if err != nil {
		return fail(err)
	}
	watch.Arm(speechIdle)
	resp, err := transport.RoundTrip(call) //nolint:bodyclose // the reader of the speech closes it, or fail does
	if err != nil {
		return fail(modelcall.DialError(within, err))
	}
	out.body = resp.Body
	out.in = modelcall.NewReader(resp.Body, watch, speechIdle)
	if resp.StatusCode != http.StatusOK {
		return fail(modelcall.StatusError(resp, out.in, out.req))
	}
	kind, known := audioTypes[req.Format], media.Base(resp.Header.Get("Content-Type"))
	switch {
	case strings.HasPrefix(known, "audio/"):
		kind = known
	case known == "" || known == "application/octet-stream" || known == "binary/octet-stream":
	default: // an error with status 200, or a page
		raw, _ := io.ReadAll(io.LimitReader(out.in, modelcall.MaxErrorBody))
		if failure := modelcall.ParseError(raw); failure.Message != "" {
			return fail(modelcall.Classify(http.StatusOK, failure, out.req))
		}
		return fail(&model.Error{Code: modelcall.CodeModel, Status: http.StatusOK, Detail: "The model endpoint sent no audio."})
	}
	return &model.Speech{Type: kind, Audio: out}, nil
}

// speech is the audio of an answer, bounded in time and size.
type speech struct {
	ctx    context.Context //nolint:containedctx // the call lasts as long as its body is read
	req    *model.Request
	in     io.Reader
	body   io.Closer
	watch  *modelcall.Watchdog
	cancel context.CancelCauseFunc
	read   int
}

// Read implements io.Reader.
func (s *speech) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	s.read += n
	switch {
	case s.read > maxSpeech:
		return 0, modelcall.ReadError(s.ctx, modelcall.ErrTooLong, s.req, "")
	case err != nil && !errors.Is(err, io.EOF):
		return n, modelcall.ReadError(s.ctx, err, s.req, "")
	}
	return n, err
}

// Close implements io.Closer.
func (s *speech) Close() error {
	s.watch.Stop()
	s.cancel(nil)
	if s.body == nil {
		return nil
	}
	return s.body.Close()
}

func encodeSpeech(req model.SpeechRequest) []byte {
	b := append(make([]byte, 0, len(req.Input)+256), `{"model":`...)
	b = modelcall.AppendString(b, req.Target.Model)
	b = append(b, `,"input":`...)
	b = modelcall.AppendString(b, req.Input)
	for _, member := range []struct{ name, value string }{{"voice", req.Voice}, {"response_format", req.Format},
		{"instructions", req.Instructions}} {
		if member.value != "" {
			b = append(b, `,"`+member.name+`":`...)
			b = modelcall.AppendString(b, member.value)
		}
	}
	if req.Speed != 0 {
		b = append(b, `,"speed":`...)
		b = strconv.AppendFloat(b, req.Speed, 'g', -1, 64)
	}
	return append(b, '}')
}

// Transcribe implements [model.AudioClient] by POST {base}/audio/transcriptions.
func (c *Client) Transcribe(ctx context.Context, req model.TranscriptionRequest) (model.Transcription, error) {
	body, contentType, err := encodeTranscription(req)
	if err != nil {
		return model.Transcription{}, modelcall.AsError(err)
	}
	q := modelcall.Call{Path: "/audio/transcriptions", Body: body, Kind: contentType,
		Timeouts: modelcall.Within(listenTimeout)}
	raw, err := c.Fetch(ctx, &req.Target, q, maxTranscript)
	if err != nil {
		return model.Transcription{}, err
	}
	return readTranscription(raw, &model.Request{Target: req.Target})
}

var quotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r", " ", "\n", " ")

func encodeTranscription(req model.TranscriptionRequest) (body []byte, contentType string, err error) {
	var b bytes.Buffer
	b.Grow(len(req.File) + 2048)
	form := multipart.NewWriter(&b)
	format := "json"
	if req.Verbose {
		format = "verbose_json"
	}
	fields := []struct{ name, value string }{
		{"model", req.Target.Model}, {"response_format", format}, {"language", req.Language}, {"prompt", req.Prompt},
	}
	if req.Temperature != nil {
		fields = append(fields, struct{ name, value string }{"temperature", strconv.FormatFloat(*req.Temperature, 'g', -1, 64)})
	}
	for _, f := range fields {
		if f.value != "" {
			if err := form.WriteField(f.name, f.value); err != nil {
				return nil, "", err
			}
		}
	}
	part, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="file"; filename="` + quotes.Replace(cmp.Or(req.Name, "audio")) + `"`},
		"Content-Type":        {cmp.Or(req.Type, "application/octet-stream")},
	})
	if err != nil {
		return nil, "", err
	}
	if _, err := part.Write(req.File); err != nil {
		return nil, "", err
	}
	if err := form.Close(); err != nil {
		return nil, "", err
	}
	return b.Bytes(), form.FormDataContentType(), nil
}

var errNoTranscript = errors.New("openaiclient: the answer is not a transcription")

func readTranscription(raw []byte, req *model.Request) (model.Transcription, error) {
	fail := func(cause error) (model.Transcription, error) {
		return model.Transcription{}, &model.Error{
			Code: modelcall.CodeModel, Status: http.StatusOK, Cause: cause,
			Detail: "The model endpoint did not send a transcription; check that its address is that of an OpenAI-compatible API.",
		}
	}
	var a struct {
		Text  *text          `json:"text"`
		Error jsontext.Value `json:"error"`
		Usage struct {
			Input  jsontext.Value `json:"input_tokens"`
			Output jsontext.Value `json:"output_tokens"`
		} `json:"usage"`
	}
	whole := jsontext.Value(raw)
	if err := json.Unmarshal(raw, &a, modelcall.Lenient); err != nil {
		return fail(err)
	}
	if kind := a.Error.Kind(); kind == '{' || kind == '"' {
		return model.Transcription{}, modelcall.Classify(http.StatusOK, modelcall.ParseError(raw), req)
	}
	if a.Text == nil {
		return fail(errNoTranscript)
	}
	if !whole.IsValid() { // what is passed on must be valid JSON
		var err error
		if whole, err = json.Marshal(map[string]string{"text": string(*a.Text)}, jsontext.AllowInvalidUTF8(true)); err != nil {
			return fail(err)
		}
	}
	return model.Transcription{
		Text: string(*a.Text), JSON: whole,
		Usage: model.Usage{InputTokens: int(modelcall.Number(a.Usage.Input, 1<<30)), OutputTokens: int(modelcall.Number(a.Usage.Output, 1<<30))},
	}, nil
}
