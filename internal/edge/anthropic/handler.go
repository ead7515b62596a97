package anthropic

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"agentd/internal/agents/modelproxy"
	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/runstream"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

// Messages serves Anthropic's Messages API with models and agents.
type Messages struct {
	Proxy *modelproxy.Proxy
	// Runner runs the agents that requests name in place of a model.
	Runner *runstream.Runner
	// Reserved returns the model that serves names with reservedPrefix.
	Reserved func() string
	// StatusWait is how long a streamed answer waits for the model's first piece
	// before it sends its status; 0: 5 s.
	StatusWait time.Duration
	// Ping is how long a stream may be silent before a ping is sent; 0: 8 s.
	Ping time.Duration
}

const (
	// reservedPrefix is the prefix of the vendor's own models.
	reservedPrefix = "claude-"
	// answerBudget bounds the time of an answer, streamed or not.
	answerBudget = 30 * time.Minute

	defaultStatusWait = 5 * time.Second
	defaultPing       = 8 * time.Second
)

// modelName returns the model that serves a name.
func (m *Messages) modelName(name string) string {
	if strings.HasPrefix(name, reservedPrefix) {
		return m.Reserved()
	}
	return name
}

// Create serves POST /v1/messages.
func (m *Messages) Create(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	req, modelReq, err := read(r)
	if err != nil {
		return err
	}
	if namesAgent(req.Model) {
		return m.run(w, r, who, req, &modelReq)
	}
	attribution, err := httpapi.Params[modelproxy.Attribution](r)
	if err != nil {
		return err
	}
	call, err := m.Proxy.Open(r.Context(), who, modelproxy.CallParams{
		Model: m.modelName(req.Model), Source: quota.SourceMessages, AgentID: attribution.AgentID,
	})
	if err != nil {
		return err
	}
	req.applyThinkingBudget(&modelReq, call.Target().Capabilities)
	modelReq.Budget, modelReq.CacheKey = answerBudget, req.cacheKey(who.TenantID)
	w.Header()["Request-Id"] = []string{httpapi.RequestID(r.Context())}
	if req.Streams() {
		return m.stream(r, call, req, modelReq)
	}
	resp, err := call.Generate(r.Context(), modelReq, nil)
	if err != nil {
		return err
	}
	out := answerBuffers.Get().(*[]byte)
	defer putBuffer(out)
	if size := answerSize(&resp); cap(*out) < size {
		*out = make([]byte, 0, size)
	}
	from := call.Target()
	*out = appendAnswer((*out)[:0], newID(), req.Model, &resp, req.ShowsThinking(), sealOpaque(&resp, &from))
	httpapi.JSONBytes(w, http.StatusOK, *out)
	return nil
}

// read reads a request and converts it to a model's.
func read(r *http.Request) (*Request, model.Request, error) {
	req, err := httpapi.DecodeBody[Request](r)
	if err != nil {
		return nil, model.Request{}, err
	}
	if err := req.checkThread(); err != nil {
		return nil, model.Request{}, err
	}
	modelReq, err := req.ToRequest()
	return req, modelReq, err
}

// CountTokens serves POST /v1/messages/count_tokens.
func (m *Messages) CountTokens(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	req, err := httpapi.DecodeBody[CountRequest](r)
	if err != nil {
		return err
	}
	n, err := req.Count()
	if err != nil {
		return err
	}
	w.Header()["Request-Id"] = []string{httpapi.RequestID(r.Context())}
	return httpapi.JSON(w, http.StatusOK, Count{InputTokens: n})
}

// newID returns the id of an answer.
func newID() string { return "msg_" + strings.ReplaceAll(ident.New(), "-", "") }

// answerBuffers pools the buffers in which answers are rendered.
var answerBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// keepBuffer is the size up to which a buffer returns to the pool, so that large
// answers do not stay in memory.
const keepBuffer = 2 << 20

func putBuffer(b *[]byte) {
	if cap(*b) <= keepBuffer {
		answerBuffers.Put(b)
	}
}
