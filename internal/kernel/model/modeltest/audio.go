package modeltest

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
)

// Sound is what the simulated model answers to a call that has a text spoken.
// The zero value is a second of something.
type Sound struct {
	Data   []byte // instead of that
	Type   string // audio/mpeg
	Status int    // other than 200: an error, with Error as its message
	Error  string
	// BreakAfter cuts the connection after that many bytes.
	BreakAfter int
	// Gate, where it is set, is received from after the first half was sent.
	Gate chan struct{}
}

// SpeechRequest is a call that came in.
type SpeechRequest struct {
	Header http.Header `json:"-"`

	Model        string  `json:"model"`
	Input        string  `json:"input"`
	Voice        string  `json:"voice"`
	Format       string  `json:"response_format"`
	Instructions string  `json:"instructions"`
	Speed        float64 `json:"speed"`
}

// Sounds sets the answers to speech calls, in the order of the calls; the last
// one is repeated.
func Sounds(all ...Sound) Option { return func(s *Server) { s.sounds = all } }

// SpeechRequests returns the speech calls that were received, in order.
func (s *Server) SpeechRequests() []SpeechRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.speechRequests)
}

func (s *Server) serveSpeech(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(nil, r)
	if err != nil {
		return
	}
	req := SpeechRequest{Header: r.Header}
	if err := json.Unmarshal(body, &req); err != nil {
		writeError(w, http.StatusBadRequest, "The body is no JSON.")
		return
	}
	s.mu.Lock()
	s.speechRequests = append(s.speechRequests, req)
	sound := Sound{}
	if n := len(s.sounds); n > 0 {
		sound = s.sounds[min(len(s.speechRequests), n)-1]
	}
	s.mu.Unlock()
	data := sound.Data
	if data == nil {
		data = bytes.Repeat([]byte("ID3\x04sound"), 1024)
	}
	switch {
	case s.key != "" && r.Header.Get("Authorization") != "Bearer "+s.key:
		writeError(w, http.StatusUnauthorized, "Incorrect API key provided.")
	case sound.Status != 0 && sound.Status != http.StatusOK:
		writeError(w, sound.Status, sound.Error)
	default:
		w.Header().Set("Content-Type", "audio/mpeg")
		if sound.Type != "" {
			w.Header().Set("Content-Type", sound.Type)
		}
		out := http.NewResponseController(w)
		if n := sound.BreakAfter; n > 0 {
			w.Write(data[:min(n, len(data))])
			_ = out.Flush()
			panic(http.ErrAbortHandler)
		}
		if sound.Gate != nil {
			w.Write(data[:len(data)/2])
			_ = out.Flush()
			data = data[len(data)/2:]
			select {
			case <-sound.Gate:
			case <-r.Context().Done():
				return
			}
		}
		w.Write(data)
	}
}

// TranscriptionRequest is a call that has speech written down.
type TranscriptionRequest struct {
	Header http.Header
	Fields map[string]string
	File   []byte
	Name   string
	Type   string
}

// Transcripts sets the answers to transcription calls, in the order of the calls;
// the last one is repeated. Of their fields Raw, ContentType, Status and Error
// apply.
func Transcripts(all ...Answer) Option { return func(s *Server) { s.transcripts = all } }

// TranscriptionRequests returns the transcription calls that were received, in
// order.
func (s *Server) TranscriptionRequests() []TranscriptionRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.transcriptionRequests)
}

func (s *Server) serveTranscription(w http.ResponseWriter, r *http.Request) {
	req, err := readTranscription(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, "The body is no form.")
		return
	}
	s.mu.Lock()
	s.transcriptionRequests = append(s.transcriptionRequests, req)
	said := Answer{}
	if n := len(s.transcripts); n > 0 {
		said = s.transcripts[min(len(s.transcriptionRequests), n)-1]
	}
	s.mu.Unlock()
	switch {
	case s.key != "" && r.Header.Get("Authorization") != "Bearer "+s.key:
		writeError(w, http.StatusUnauthorized, "Incorrect API key provided.")
	case said.Status != 0 && said.Status != http.StatusOK:
		writeError(w, said.Status, said.Error)
	case said.Raw != nil:
		w.Header().Set("Content-Type", "application/json")
		w.Write(said.Raw)
	default:
		w.Header().Set("Content-Type", "application/json")
		usage := object{"type": "tokens", "input_tokens": 14, "output_tokens": 4}
		whole := object{"text": fmt.Sprintf("%d bytes of speech", len(req.File)), "usage": usage}
		if req.Fields["response_format"] == "verbose_json" {
			whole["duration"] = 1.5
			whole["segments"] = []any{}
		}
		w.Write(encode(whole))
	}
}

func readTranscription(r *http.Request) (TranscriptionRequest, error) {
	req := TranscriptionRequest{Header: r.Header, Fields: map[string]string{}}
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return req, err
	}
	form := multipart.NewReader(r.Body, params["boundary"])
	for {
		part, err := form.NextRawPart()
		if err == io.EOF {
			return req, nil
		}
		if err != nil {
			return req, err
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return req, err
		}
		if part.FormName() == "file" {
			req.File, req.Name, req.Type = data, part.FileName(), part.Header.Get("Content-Type")
		} else {
			req.Fields[part.FormName()] = string(data)
		}
	}
}
