// Package wiretest holds the tests that the client of every wire passes, against an
// endpoint that is simulated over HTTP and refuses what the real one refuses.
package wiretest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// Protocol is a simulated endpoint's side of a wire.
type Protocol interface {
	// Target returns a target at a server's address.
	Target(url string) model.Target
	// Check returns what the endpoint refuses in a request; "": nothing.
	Check(r *http.Request, body []byte) string
	// Asked returns what a request says.
	Asked(body []byte) Asked
	// Streams reports whether a request asks for a stream.
	Streams(r *http.Request, body []byte) bool
	// Whole returns an answer in one piece.
	Whole(a Answer) []byte
	// Stream returns an answer as the pieces of a stream, one for each block's part.
	Stream(a Answer) [][]byte
	// Failure returns an error as the body of an answer.
	Failure(status int, message string) []byte
	// StreamFailure returns an error in the middle of a stream.
	StreamFailure(message string) []byte
}

// Counting is a protocol whose endpoint counts tokens.
type Counting interface {
	// CountOf returns the request whose tokens are to be counted, as the body of a call, and
	// what the endpoint refuses in it; nil: r does not request a count.
	CountOf(r *http.Request, body []byte) (of []byte, wrong string)
	// Counted returns a count.
	Counted(tokens int) []byte
}

// Features are what a wire has beyond the rest.
type Features struct {
	NoSignatures bool // nothing goes back with an answer
	NoFilter     bool // it has no finish reason for safety filters
	NoRefusal    bool // and none for refusals
	NoWritten    bool // it does not report what a cache stored
	NoThinking   bool // nor how many tokens were thinking
	NoBroken     bool // arguments of calls are JSON, never text
	NoDocuments  bool
	NoStop       bool // nor stop sequences
	Audio        bool // it takes recordings
	Binary       bool // a stream's pieces are not text lines
	StreamType   string
}

// Answer is what the simulated model says.
type Answer struct {
	Blocks     []Block
	Finish     string // one of the model package's, or unknown; "": stop, or tool_calls
	Usage      Usage
	NoUsage    bool
	Interleave bool // pieces of calls come in turns
}

// Block is a part of an answer: a text, a thought with a signature, or a call.
type Block struct {
	Text      string
	Thinking  string
	Signature string
	Call      *model.ToolCall
}

// Usage of an answer. Input and Output are whole.
type Usage struct{ Input, Output, Cached, Written, Thinking int }

// Asked is what a request says, in one form for all wires: lines such as "user: text",
// "model: text", "thinking: signature", "call: name arguments", "result: text",
// "image: type data", "document: type data".
type Asked struct {
	System      string
	Lines       []string
	Tools       []string
	Choice      string // auto, none, required, or a tool's name
	MaxTokens   int
	Temperature *float64
	Stop        []string
	Form        string // the schema of the answer
	Body        string
}

// Reply is how the endpoint reacts to a call.
type Reply struct {
	Answer
	Status     int    // other than 200: an error with Message
	Message    string // with 200: an error after the pieces, or in place of an answer
	RetryAfter string
	Raw        string // sent instead of everything above
	CutAfter   int    // ends a stream after that many pieces
	HangAfter  int    // says nothing more after that many pieces
	Refuses    func(Asked) string
}

// Endpoint is a simulated endpoint.
type Endpoint struct {
	URL string
	// Tokens counts the tokens of a request, where the protocol is Counting. It is set
	// before the first call; nil: the endpoint has no such call.
	Tokens func(Asked) int

	t       *testing.T
	p       Protocol
	f       Features
	mu      sync.Mutex
	replies []Reply
	asked   []Asked
	wrong   []string
	counts  int
}

// NewEndpoint starts an endpoint that gives the replies in turn, the last one for ever.
func NewEndpoint(t *testing.T, p Protocol, f Features, replies ...Reply) *Endpoint {
	e := &Endpoint{t: t, p: p, f: f, replies: replies}
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	e.URL = s.URL
	return e
}

// Asked returns the calls that were accepted.
func (e *Endpoint) Asked() []Asked {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked
}

// Wrong returns what the endpoint refused by itself.
func (e *Endpoint) Wrong() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.wrong
}

// Counts returns how many counts were requested.
func (e *Endpoint) Counts() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.counts
}

// count answers a request for a count, and reports whether it was one.
func (e *Endpoint) count(w http.ResponseWriter, r *http.Request, body []byte) bool {
	counting, ok := e.p.(Counting)
	if !ok {
		return false
	}
	of, wrong := counting.CountOf(r, body)
	if of == nil && wrong == "" {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts++
	switch {
	case e.Tokens == nil:
		http.NotFound(w, r)
	case wrong != "":
		e.wrong = append(e.wrong, wrong)
		w.WriteHeader(http.StatusBadRequest)
		w.Write(e.p.Failure(http.StatusBadRequest, wrong))
	default:
		asked := e.p.Asked(of)
		asked.Body = string(of)
		w.Write(counting.Counted(e.Tokens(asked)))
	}
	return true
}

// ServeHTTP implements http.Handler.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet { // a list of models, which the endpoint does not have
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if e.count(w, r, body) {
		return
	}
	if wrong := e.p.Check(r, body); wrong != "" {
		e.mu.Lock()
		e.wrong = append(e.wrong, wrong)
		e.mu.Unlock()
		w.WriteHeader(http.StatusBadRequest)
		w.Write(e.p.Failure(http.StatusBadRequest, wrong))
		return
	}
	asked := e.p.Asked(body)
	asked.Body = string(body)
	e.mu.Lock()
	reply := e.replies[min(len(e.asked), len(e.replies)-1)]
	if reply.Refuses != nil {
		if why := reply.Refuses(asked); why != "" {
			e.mu.Unlock()
			w.WriteHeader(http.StatusBadRequest)
			w.Write(e.p.Failure(http.StatusBadRequest, why))
			return
		}
	}
	e.asked = append(e.asked, asked)
	e.mu.Unlock()
	e.reply(w, r, reply, e.p.Streams(r, body))
}

func (e *Endpoint) reply(w http.ResponseWriter, r *http.Request, reply Reply, stream bool) {
	if reply.RetryAfter != "" {
		w.Header().Set("Retry-After", reply.RetryAfter)
	}
	switch {
	case reply.Raw != "":
		w.Write([]byte(reply.Raw))
		return
	case reply.Status != 0:
		w.WriteHeader(reply.Status)
		w.Write(e.p.Failure(reply.Status, reply.Message))
		return
	case !stream && reply.Message != "":
		w.Write(e.p.Failure(http.StatusOK, reply.Message))
		return
	case !stream:
		w.Write(e.p.Whole(reply.Answer))
		return
	}
	w.Header().Set("Content-Type", e.f.StreamType)
	pieces := e.p.Stream(reply.Answer)
	if reply.Message != "" {
		pieces = append(pieces[:max(1, len(pieces)/2)], e.p.StreamFailure(reply.Message))
	}
	for i, piece := range pieces {
		if reply.CutAfter > 0 && i == reply.CutAfter {
			return
		}
		w.Write(piece)
		w.(http.Flusher).Flush()
		if reply.HangAfter > 0 && i+1 == reply.HangAfter {
			<-r.Context().Done()
			return
		}
	}
}

// Call makes a call of the endpoint's model.
func (e *Endpoint) Call(t *testing.T, client model.Client, req model.Request, stream bool) (model.Response, []model.Delta, error) {
	t.Helper()
	var deltas []model.Delta
	var sink func(model.Delta)
	if stream {
		sink = func(d model.Delta) {
			d.Text, d.Thinking, d.Call.Arguments = strings.Clone(d.Text), strings.Clone(d.Thinking), strings.Clone(d.Call.Arguments)
			deltas = append(deltas, d)
		}
	}
	target := e.p.Target(e.URL)
	target.Price, target.Context = req.Target.Price, req.Target.Context
	req.Target = target
	resp, err := client.Generate(t.Context(), req, sink)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, wrong := range e.wrong {
		t.Errorf("the endpoint refused a request: %s", wrong)
	}
	e.wrong = nil
	return resp, deltas, err
}

// Config is the configuration of clients under test.
func Config() modelcall.Config {
	return modelcall.Config{Operator: modelcall.NewTransport(), Backoff: time.Millisecond, MaxBackoff: time.Millisecond}
}

// Mix returns the pieces of blocks one block after the other, or one piece of each in
// turn.
func Mix(blocks [][][]byte, interleave bool) (all [][]byte) {
	if !interleave {
		for _, b := range blocks {
			all = append(all, b...)
		}
		return all
	}
	for i, left := 0, true; left; i++ {
		left = false
		for _, b := range blocks {
			if i < len(b) {
				all = append(all, b[i])
				left = true
			}
		}
	}
	return all
}
