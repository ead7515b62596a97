package modeltest

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
)

// Picture is what the simulated model answers to a call for a picture. The
// zero value is a small PNG.
type Picture struct {
	Data    []byte // instead of the PNG
	Revised string // the prompt as the model changed it
	Status  int    // other than 200: an error, with Error as its message
	Error   string
	URL     string // sent in place of the picture
	Raw     []byte // sent instead of everything above
	// NoFormat refuses response_format, as the models do that always send base64.
	NoFormat bool
}

// ImageRequest is a call for a picture that came in.
type ImageRequest struct {
	Header http.Header `json:"-"`
	Body   []byte      `json:"-"`

	Model  string `json:"model"`
	Prompt string `json:"prompt"`
	Size   string `json:"size"`
	Format string `json:"response_format"`
}

// Pictures sets the answers to image calls, in the order of the calls; the last
// one is repeated.
func Pictures(all ...Picture) Option { return func(s *Server) { s.pictures = all } }

// ImageRequests returns the image calls that were received, in order.
func (s *Server) ImageRequests() []ImageRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.imageRequests)
}

func (s *Server) serveImage(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(nil, r)
	if err != nil {
		return
	}
	req := ImageRequest{Header: r.Header, Body: body}
	if err := json.Unmarshal(body, &req); err != nil {
		writeError(w, http.StatusBadRequest, "The body is no JSON.")
		return
	}
	s.mu.Lock()
	s.imageRequests = append(s.imageRequests, req)
	p := Picture{}
	if n := len(s.pictures); n > 0 {
		p = s.pictures[min(len(s.imageRequests), n)-1]
	}
	s.mu.Unlock()
	switch {
	case s.key != "" && r.Header.Get("Authorization") != "Bearer "+s.key:
		writeError(w, http.StatusUnauthorized, "Incorrect API key provided.")
	case p.NoFormat && req.Format != "":
		writeError(w, http.StatusBadRequest, "Unknown parameter: 'response_format'.")
	case p.Raw != nil:
		w.Write(p.Raw)
	case p.Status != 0 && p.Status != http.StatusOK:
		writeError(w, p.Status, p.Error)
	default:
		one := object{"b64_json": base64.StdEncoding.EncodeToString(p.bytes())}
		if p.URL != "" {
			one = object{"url": p.URL}
		}
		if p.Revised != "" {
			one["revised_prompt"] = p.Revised
		}
		out := encode(object{"created": created, "data": []any{one}})
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(out)))
		w.Write(out)
	}
}

func writeError(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(encode(object{"error": object{"message": message, "type": "sim_error", "code": nil}}))
}

func (p Picture) bytes() []byte {
	if p.Data != nil {
		return p.Data
	}
	dot := image.NewRGBA(image.Rect(0, 0, 2, 2))
	dot.Set(0, 0, color.RGBA{R: 200, A: 255})
	var b bytes.Buffer
	if err := png.Encode(&b, dot); err != nil {
		panic(err) // a buffer takes everything
	}
	return b.Bytes()
}
