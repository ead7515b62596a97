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

// Bounds of a request for embeddings (behaviours.md section 32).
const (
	maxInputs     = 2048
	maxInputChars = 8000 // of each; what is longer is cut
)

// base64Format is the encoding_format of vectors as the base64 of little-endian
// 32-bit floats.
const base64Format = "base64"

// EmbeddingRequest is what is read of POST /v1/embeddings.
type EmbeddingRequest struct {
	Input  jsontext.Value `json:"input" required:"true" doc:"A text, or an array of at most 2048 texts. Each is cut at 8000 characters."`
	Model  *string        `json:"model,omitzero" nullable:"true" doc:"Whatever it says, the deployment's embedding model is used."`
	Format *string        `json:"encoding_format,omitzero" nullable:"true" enum:"float,base64" doc:"float by default; base64 is of little-endian 32-bit floats."`

	Dimensions *int64 `json:"dimensions,omitzero" nullable:"true" deprecated:"true" doc:"Ignored: vectors are as long as the model makes them."`
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
	Embedding   schema.Any      `json:"embedding" required:"true" doc:"An array of numbers, or a text in base64. Empty where there is an error."`
	Index       int             `json:"index" required:"true"`
	InputTokens int             `json:"input_tokens" required:"true" doc:"Of this input, as far as it was embedded; its share where the model counts several together."`
	Truncated   bool            `json:"truncated" required:"true" doc:"The input was longer than 8000 characters, and its end was left out."`
	Error       *EmbeddingError `json:"error,omitzero" doc:"Why there is no vector."`
}

// EmbeddingError says why an input has no vector.
type EmbeddingError struct {
	Code    string `json:"code" required:"true" enum:"embedding_failed"`
	Message string `json:"message" required:"true"`
}

// EmbeddingUsage counts the tokens of all inputs that were embedded.
type EmbeddingUsage struct {
	PromptTokens int `json:"prompt_tokens" required:"true"`
	TotalTokens  int `json:"total_tokens" required:"true"`
}

// Embeddings serves the embeddings shape with the operator's embedding model.
type Embeddings struct {
	Model  model.Embedder // nil: none is configured
	Target model.Target   // what use of it is counted as
	Proxy  *modelproxy.Proxy
}

// Routes of the embeddings shape.
func (e *Embeddings) Routes() []httpapi.Raw {
	return openAIRoutes([]httpapi.Raw{{
		Row: route.Row{
			Method: "POST", Path: "/v1/embeddings", ID: "createEmbedding", Tag: "OpenAI-Compat",
			Scopes: []authz.Scope{"runs:create"}, Role: authz.Developer, Repeats: true, Outside: true, Errors: []int{422, 429, 501, 503},
			Summary:  "Turn texts into vectors",
			Doc:      "The deployment's embedding model is used, whatever model is named. An input that the model does not take has an error in its place; where there is no vector at all the answer is 503. 501 says that the deployment has no embedding model: do not retry.",
			BodyOf:   reflect.TypeFor[EmbeddingRequest](),
			AnswerOf: reflect.TypeFor[EmbeddingList](),
		},
		Serve: e.Create,
	}})
}

// Create answers POST /v1/embeddings.
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

const errTokenInput = "expected a text: what is already tokens cannot be read, because the tokens are another model's"

// texts gives the inputs, uncut.
func (r *EmbeddingRequest) texts() ([]string, error) {
	var wrong fieldErrors
	var texts []string
	take := func(field string, v jsontext.Value) {
		switch {
		case v.Kind() == '0' || v.Kind() == '[':
			wrong.add(field, errTokenInput)
		case v.Kind() != '"':
			wrong.add(field, "expected a text")
		case len(v) == len(`""`):
			wrong.add(field, "a text without a character has no meaning")
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
		for ; dec.PeekKind() != ']' && i <= maxInputs && len(wrong) <= maxListed; i++ {
			v, err := dec.ReadValue()
			if err != nil {
				return nil, err
			}
			take("input["+strconv.Itoa(i)+"]", v)
		}
		switch {
		case i == 0:
			wrong.add("input", "expected at least one text")
		case i > maxInputs:
			wrong.add("input", "expected at most 2048 texts")
		}
	default:
		wrong.add("input", "expected a text or an array of texts")
	}
	if wrong != nil {
		return nil, fault.BadFields(wrong...)
	}
	return texts, nil
}

// share says which part of the tokens of a call is the text's that begins where
// so many of all characters are before it. The parts add up.
func share(tokens, before, through, all int) int {
	return tokens*through/all - tokens*before/all
}

func runes(text string) int { return max(1, utf8.RuneCountInString(text)) }
