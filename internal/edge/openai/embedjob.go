package openai

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"

	"agentd/internal/agents/modelproxy"
	"agentd/internal/base/fault"
	"agentd/internal/base/text"
	"agentd/internal/kernel/model"
)

const (
	batchTexts = 96      // in a call
	batchChars = 256_000 // in a call of several
	// maxFailuresInRow is how many calls in a row may fail, each with half of the
	// texts of the one before, until the endpoint counts as down. It suffices to
	// find one or two bad texts among batchTexts.
	maxFailuresInRow = 12
	// maxFailures is how many calls of one request may fail.
	maxFailures = 64
)

// embedJob embeds texts in as few calls as possible. A call that fails because of
// its texts is repeated for each half, so that a text which the model rejects does
// not cost the others their vectors.
type embedJob struct {
	embedder      model.Embedder
	texts         []string
	outcomes      []outcome
	tokens        int   // of all successful calls
	done          int   // texts that have a vector
	failed        int   // calls
	failuresInRow int   // calls since the last successful one
	lastErr       error // of a call
	unreachable   bool  // the endpoint is down, or refuses every call
}

// outcome is the result for one text.
type outcome struct {
	vector    []float32
	tokens    int
	truncated bool
	failure   string // "" if there is a vector
}

func newEmbedJob(e model.Embedder, texts []string) *embedJob {
	j := &embedJob{embedder: e, texts: texts, outcomes: make([]outcome, len(texts))}
	for i, whole := range texts {
		texts[i] = text.Prefix(whole, maxInputChars)
		j.outcomes[i].truncated = len(texts[i]) < len(whole)
		j.outcomes[i].tokens = model.EstimateTokens(texts[i])
	}
	return j
}

// run embeds all texts. Errors: the context's; fault.Unavailable if no text got a
// vector.
func (j *embedJob) run(ctx context.Context) error {
	for from := 0; from < len(j.texts); {
		to, chars := from, 0
		for to < len(j.texts) && to-from < batchTexts {
			if chars += runes(j.texts[to]); chars > batchChars && to > from {
				break
			}
			to++
		}
		if err := j.embed(ctx, from, to); err != nil {
			return err
		}
		from = to
	}
	if j.done > 0 {
		return nil
	}
	detail := "The embedding model returned no vector."
	if e, ok := errors.AsType[*model.Error](j.lastErr); ok {
		detail += " " + e.Detail
	}
	f := fault.New(fault.Unavailable, "embedding_failed", "%s", detail).Because(j.lastErr)
	if cause := fault.From(modelproxy.AsFault(j.lastErr)); cause != nil {
		f.RetryAfter = cause.RetryAfter
	}
	return f
}

// embed embeds some of the texts, in one call or, if that fails, by halves.
func (j *embedJob) embed(ctx context.Context, from, to int) error {
	if j.givenUp(from, to) {
		return nil
	}
	got, err := j.embedder.Embed(ctx, j.texts[from:to])
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil && len(got.Vectors) != to-from {
		err = errVectors
	}
	if err == nil && !j.sameLength(got.Vectors[0]) {
		err = errLength
	}
	if err == nil {
		j.store(from, got)
		return nil
	}
	j.lastErr = err
	j.failed++
	j.failuresInRow++
	j.unreachable = j.unreachable || !inputMayBeCause(err)
	if to-from == 1 || j.unreachable {
		j.fail(from, to)
		return nil
	}
	middle := from + (to-from)/2
	if err := j.embed(ctx, from, middle); err != nil {
		return err
	}
	return j.embed(ctx, middle, to)
}

var (
	errVectors = &model.Error{Code: "model_error", Status: http.StatusOK, Detail: "It did not send exactly one vector for each text."}
	errLength  = &model.Error{Code: "model_error", Status: http.StatusOK, Detail: "It sent vectors of different lengths."}
)

// givenUp reports whether no further calls are made, and marks the texts as failed
// if so.
func (j *embedJob) givenUp(from, to int) bool {
	if !j.unreachable && j.failed < maxFailures && j.failuresInRow < maxFailuresInRow {
		return false
	}
	j.fail(from, to)
	return true
}

// inputMayBeCause reports whether the texts of a failed call may be the reason. Not
// all endpoints answer 400 then: some answer 500 to a text that is too long.
func inputMayBeCause(err error) bool {
	e, ok := errors.AsType[*model.Error](err)
	if !ok {
		return false
	}
	switch e.Status {
	case http.StatusOK, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
		http.StatusInternalServerError:
		return e.RetryAfter == 0
	}
	return false
}

// sameLength reports whether a vector is as long as the ones before it.
func (j *embedJob) sameLength(vector []float32) bool {
	first := slices.IndexFunc(j.outcomes, func(o outcome) bool { return o.vector != nil })
	return first < 0 || len(j.outcomes[first].vector) == len(vector)
}

func (j *embedJob) store(from int, got model.Embedded) {
	all := 0
	for i := range got.Vectors {
		all += runes(j.texts[from+i])
	}
	before := 0
	for i, vector := range got.Vectors {
		through := before + runes(j.texts[from+i])
		o := &j.outcomes[from+i]
		o.vector, o.tokens = vector, share(got.Tokens, before, through, all)
		before = through
	}
	j.tokens += got.Tokens
	j.done += len(got.Vectors)
	j.failuresInRow = 0
}

func (j *embedJob) fail(from, to int) {
	message := "The embedding model does not answer."
	if e, ok := errors.AsType[*model.Error](j.lastErr); ok {
		message = cmp.Or(e.Detail, message)
	}
	for i := from; i < to; i++ {
		j.outcomes[i].failure = message
	}
}

// flushAt is how many bytes of an answer are buffered before they are sent.
const flushAt = 256 << 10

// write renders the answer in pieces, because it may have a hundred megabytes.
func (j *embedJob) write(w http.ResponseWriter, inBase64 bool) {
	head := w.Header()
	head.Set("Content-Type", "application/json")
	head.Set("Cache-Control", "no-store")
	b := append(make([]byte, 0, 16<<10), `{"object":"list","data":[`...)
	sent := false
	for i := range j.outcomes {
		if i > 0 {
			b = append(b, ',')
		}
		b = j.outcomes[i].append(b, i, inBase64)
		if len(b) >= flushAt {
			if _, err := w.Write(b); err != nil { //nolint:gosec // JSON with its content type
				return // the client is gone
			}
			b, sent = b[:0], true
		}
	}
	b = append(b, `],"model":`...)
	b = append(b, quote(j.embedder.Model())...)
	b = append(b, `,"usage":{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(j.tokens), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(j.tokens), 10)
	b = append(b, `}}`...)
	if !sent {
		head.Set("Content-Length", strconv.Itoa(len(b)))
	}
	_, _ = w.Write(b) //nolint:gosec // JSON with its content type; the server notices a client that is gone
}

func (o *outcome) append(b []byte, index int, inBase64 bool) []byte {
	b = append(b, `{"object":"embedding","embedding":`...)
	if inBase64 {
		b = appendBase64(b, o.vector)
	} else {
		b = appendFloats(b, o.vector)
	}
	b = append(b, `,"index":`...)
	b = strconv.AppendInt(b, int64(index), 10)
	b = append(b, `,"input_tokens":`...)
	b = strconv.AppendInt(b, int64(o.tokens), 10)
	b = append(b, `,"truncated":`...)
	b = strconv.AppendBool(b, o.truncated)
	if o.failure != "" {
		b = append(b, `,"error":{"code":"embedding_failed","message":`...)
		b = append(b, quote(o.failure)...)
		b = append(b, '}')
	}
	return append(b, '}')
}

func appendFloats(b []byte, vector []float32) []byte {
	b = append(b, '[')
	for i, f := range vector {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, float64(f), 'g', -1, 32)
	}
	return append(b, ']')
}

// appendBase64 encodes three floats at a time, which are sixteen characters.
func appendBase64(b []byte, vector []float32) []byte {
	var raw [12]byte
	b = append(b, '"')
	for len(vector) > 0 {
		n := min(3, len(vector))
		for i, f := range vector[:n] {
			binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(f))
		}
		b = base64.StdEncoding.AppendEncode(b, raw[:4*n])
		vector = vector[n:]
	}
	return append(b, '"')
}
