package openai

import (
	"bytes"
	"net/http"
	"reflect"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/modelproxy"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ptr"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/edge/httpapi"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

// Limits of a request for embeddings.
const (
	maxInputs     = 2048
	maxInputChars = 8000 // of each; longer ones are truncated
)

// base64Format is the encoding_format for base64 of little-endian 32-bit floats.
const base64Format = "base64"

// EmbeddingRequest is the body of POST /v1/embeddings.
type EmbeddingRequest struct {
	Input  jsontext.Value `json:"input" required:"true" doc:"A string, or an array of at most 2048 strings. Each is truncated to 8000 characters."`
	Model  *string        `json:"model,omitzero" nullable:"true" doc:"Ignored: the deployment's embedding model is used."`
	Format *string        `json:"encoding_format,omitzero" nullable:"true" enum:"float,base64" doc:"float by default. base64 encodes little-endian 32-bit floats."`

	Dimensions *int64 `json:"dimensions,omitzero" nullable:"true" deprecated:"true" doc:"Ignored: the model determines the length of vectors."`
}

// EmbeddingList is the answer.
type EmbeddingList struct {
	Object string         `json:"object" required:"true" enum:"list"`
	Data   []Embedding    `json:"data" required:"true" doc:"One for each input, in order."`
	Model  string         `json:"model" required:"true" doc:"The deployment's embedding model."`
	Usage  EmbeddingUsage `json:"usage" required:"true"`
}

// Embedding is the vector of one input.
type Embedding struct {
	Object      string          `json:"object" required:"true" enum:"embedding"`
	Embedding   schema.Any      `json:"embedding" required:"true" doc:"An array of numbers, or a base64 string. Empty if there is an error."`
	Index       int             `json:"index" required:"true"`
	InputTokens int             `json:"input_tokens" required:"true" doc:"Tokens of the embedded part of this input; a share if the model counts several inputs together."`
	Truncated   bool            `json:"truncated" required:"true" doc:"The input was longer than 8000 characters and was cut off there."`
	Error       *EmbeddingError `json:"error,omitzero" doc:"Why there is no vector."`
}

// EmbeddingError is why an input has no vector.
type EmbeddingError struct {
	Code    string `json:"code" required:"true" enum:"embedding_failed"`
	Message string `json:"message" required:"true"`
}

// EmbeddingUsage counts the tokens of all inputs that were embedded.
type EmbeddingUsage struct {
	PromptTokens int `json:"prompt_tokens" required:"true"`
	TotalTokens  int `json:"total_tokens" required:"true"`
}

// Embeddings serves OpenAI's embeddings API with the operator's embedding model.
type Embeddings struct {
	Model  model.Embedder // nil if none is configured
	Target model.Target   // recorded for its usage
	Proxy  *modelproxy.Proxy
}

// Routes returns the route of the embeddings API.
func (e *Embeddings) Routes() []httpapi.Raw {
	return openAIRoutes([]httpapi.Raw{{
		Row: route.Row{
			Method: "POST", Path: "/v1/embeddings", ID: "createEmbedding", Tag: "OpenAI-Compat",
			Scopes: []authz.Scope{"runs:create"}, Role: authz.Developer, Repeats: true, Outside: true, Errors: []int{422, 429, 501, 503},
			Summary: "Create embeddings",
			Doc: "Uses the deployment's embedding model, whatever model is named. An input that the model rejects has an error in place of its " +
				"vector; if no input has a vector, the status is 503. 501 means that the deployment has no embedding model: do not retry.",
			BodyOf:   reflect.TypeFor[EmbeddingRequest](),
			AnswerOf: reflect.TypeFor[EmbeddingList](),
		},
		Serve: e.Create,
	}})
}

// Create serves POST /v1/embeddings.
func (e *Embeddings) Create(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	req, err := httpapi.DecodeBody[EmbeddingRequest](r)
	if err != nil {
		return err
	}
	texts, err := req.texts()
	if err != nil {
		return err
	}
	if e.Model == nil {
		return fault.New(fault.Unsupported, "embedding_unavailable", "No embedding model is configured on this deployment.")
	}
	job := newEmbedJob(e.Model, texts)
	call, err := e.Proxy.OpenTarget(r.Context(), who, e.Target, quota.SourceEmbeddings)
	if err != nil {
		return err
	}
	err = job.run(r.Context())
	if job.tokens > 0 {
		call.Used(model.Usage{InputTokens: job.tokens})
	}
	if err != nil {
		if f := fault.From(err); f != nil && f.RetryAfter == 0 && !job.unreachable {
			w.Header().Set("X-Should-Retry", "false") // the same texts would fail again
		}
		return err
	}
	job.write(w, ptr.Value(req.Format) == base64Format)
	return nil
}

const tokensNotSupported = "expected a string: token ids are not supported, because they belong to another model"

// texts returns the inputs, not truncated.
func (r *EmbeddingRequest) texts() ([]string, error) {
	var errs fieldErrors
	var texts []string
	take := func(field string, v jsontext.Value) {
		switch {
		case v.Kind() == '0' || v.Kind() == '[':
			errs.add(field, tokensNotSupported)
		case v.Kind() != '"':
			errs.add(field, "expected a string")
		case len(v) == len(`""`):
			errs.add(field, "must not be empty")
		default:
			texts = append(texts, unquote(v))
		}
	}
	switch r.Input.Kind() {
	case '"':
		take("input", r.Input)
	case '[':
		dec := jsontext.NewDecoder(bytes.NewReader(r.Input))
		if _, err := dec.ReadToken(); err != nil {
			return nil, err
		}
		i := 0
		for ; dec.PeekKind() != ']' && i <= maxInputs && len(errs) <= maxListed; i++ {
			v, err := dec.ReadValue()
			if err != nil {
				return nil, err
			}
			take("input["+strconv.Itoa(i)+"]", v)
		}
		switch {
		case i == 0:
			errs.add("input", "expected at least one string")
		case i > maxInputs:
			errs.add("input", "expected at most 2048 strings")
		}
	default:
		errs.add("input", "expected a string or an array of strings")
	}
	if errs != nil {
		return nil, fault.BadFields(errs...)
	}
	return texts, nil
}

// share returns the tokens of one text of a call: the share of its characters, which
// are those from before up to through of all. The shares add up to tokens.
func share(tokens, before, through, all int) int {
	return tokens*through/all - tokens*before/all
}

func runes(text string) int { return max(1, utf8.RuneCountInString(text)) }
