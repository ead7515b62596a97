package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/idempotency"
)

const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "X-Idempotency-Replayed"
	// apiPrefix is the path below which every write takes an Idempotency-Key.
	apiPrefix = "/api/v1/"
)

// repeatable reports whether an operation takes an Idempotency-Key: every
// authenticated write below apiPrefix, and rows with Repeats.
func repeatable(row route.Row) bool {
	switch row.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return !row.Public && (row.Repeats || strings.HasPrefix(row.Path, apiPrefix))
	}
	return false
}

// heldAnswer buffers an answer until it is stored.
type heldAnswer struct {
	body bytes.Buffer
	once any // the route.ShownOnce that it shows; nil: none
}

// serveIdempotent serves a write that carries an Idempotency-Key.
func (s *Server) serveIdempotent(
	x *exchange,
	r *http.Request,
	o *operation,
	in *binder,
	answer func(context.Context, *exchange, *http.Request, any) error,
) error {
	if err := checkKey(r); err != nil {
		return err
	}
	if in.body != nil && in.body.uploads != nil {
		return s.perform(x, r, o, hashUpload(r), func(ctx context.Context) error {
			arg, held, err := in.bind(x, r)
			defer held.release()
			if err != nil {
				return err
			}
			return answer(ctx, x, r, arg)
		})
	}
	arg, held, invalid := in.bind(x, r)
	defer held.release()
	if invalid != nil && held.data == nil {
		return invalid // there is no body whose hash could be stored with the key
	}
	sum := sha256.Sum256(held.data)
	return s.perform(x, r, o, func(bool) (idempotency.Hash, bool) { return sum, true }, func(ctx context.Context) error {
		if invalid != nil {
			return invalid
		}
		return answer(ctx, x, r, arg)
	})
}

// serveRawIdempotent is serveIdempotent for an operation that reads its body itself.
func (s *Server) serveRawIdempotent(
	x *exchange,
	r *http.Request,
	o *operation,
	serve func(http.ResponseWriter, *http.Request, authz.Caller) error,
) error {
	if err := checkKey(r); err != nil {
		return err
	}
	return s.perform(x, r, o, hashUpload(r), func(ctx context.Context) error { return serve(x, r.WithContext(ctx), x.who) })
}

// ResultRef names the result of a write whose answer comes long after its effect,
// or is a stream. A ReplayByRef row records it in the transaction of the write, by
// txn.Answer.
type ResultRef string

// serveByRef serves a write of a ReplayByRef row. Only its ResultRef is stored:
// Serve asks [EarlierResult] which result a repeated request refers to, possibly
// while the first request is still being answered.
func (s *Server) serveByRef(x *exchange, r *http.Request, serve func(http.ResponseWriter, *http.Request, authz.Caller) error) error {
	if err := checkKey(r); err != nil {
		return err
	}
	if s.idempotency == nil {
		return serve(x, r, x.who)
	}
	request := idempotencyRequest(x, r, hashUpload(r))
	render := func(v any) (*idempotency.Answer, error) {
		return &idempotency.Answer{Status: http.StatusOK, Location: string(v.(ResultRef))}, nil
	}
	for until := time.Now().Add(s.repeatWait); ; {
		ticket, err := s.idempotency.Begin(request, render)
		if errors.Is(err, idempotency.ErrRunning) && time.Now().Before(until) && x.Err() == nil {
			time.Sleep(5 * time.Millisecond) // the transaction of the first request is short
			continue
		}
		if err != nil {
			return inProgressError(err)
		}
		defer ticket.Close()
		x.ticket = ticket
		return serve(x, r.WithContext(txn.WithRequestHook(x, ticket)), x.who)
	}
}

// inProgressError is the refusal of a repeated request whose first one takes too
// long, on the compatible routes: their clients take a 202 for the answer.
func inProgressError(err error) error {
	if !errors.Is(err, idempotency.ErrRunning) {
		return err
	}
	f := fault.New(
		fault.Unavailable,
		"request_in_progress",
		"The first request with this Idempotency-Key is still running: send the same request again.",
	)
	f.RetryAfter = time.Second
	return f
}

// EarlierResult returns the ResultRef that an earlier request with the same
// Idempotency-Key recorded. The Serve of a ReplayByRef row calls it after its write
// failed with an error. Errors: failed, where there was no earlier request;
// IDEMPOTENCY_KEY_REUSED.
func EarlierResult(w http.ResponseWriter, r *http.Request, failed error) (ResultRef, error) {
	x := exchangeOf(r.Context())
	if x.ticket == nil {
		return "", failed
	}
	kept, err := x.ticket.EarlierAnswer(x)
	switch {
	case err != nil:
		return "", inProgressError(err)
	case kept == nil:
		return "", failed
	}
	w.Header()[replayedHeader] = yes
	return ResultRef(kept.Location), nil
}

func checkKey(r *http.Request) error {
	keys := r.Header[keyHeader]
	if len(keys) > 1 {
		return fault.New(fault.Malformed, "INVALID_IDEMPOTENCY_KEY", "The header Idempotency-Key was sent more than once; send it once.")
	}
	return idempotency.Check(keys[0])
}

// perform does a write unless it was done before, and stores its answer. While an
// earlier request is doing it, perform waits for that one's answer.
func (s *Server) perform(
	x *exchange,
	r *http.Request,
	o *operation,
	body func(bool) (idempotency.Hash, bool),
	do func(context.Context) error,
) error {
	if s.idempotency == nil {
		return do(x)
	}
	request := idempotencyRequest(x, r, body)
	err := s.performOnce(x, r, o, request, do)
	if !errors.Is(err, idempotency.ErrRunning) {
		return err
	}
	kept, err := s.awaitEarlier(x, request)
	switch {
	case err != nil || kept != nil:
		return x.replay(kept, err)
	case !bodyIsUnread(r): // an upload cannot be performed again
		return x.replay(nil, idempotency.ErrRunning)
	}
	if err := s.performOnce(x, r, o, request, do); !errors.Is(err, idempotency.ErrRunning) {
		return err
	}
	return x.replay(nil, idempotency.ErrRunning)
}

// awaitEarlier waits for the answer to an earlier request that is still running. It
// returns nil if that one ended without an answer, and ErrRunning if it takes too
// long.
func (s *Server) awaitEarlier(x *exchange, request idempotency.Request) (*idempotency.Answer, error) {
	const first, longest = 5 * time.Millisecond, 200 * time.Millisecond
	until := time.Now().Add(s.repeatWait)
	for pause := first; ; pause = min(2*pause, longest) {
		kept, err := s.idempotency.Earlier(x, request)
		if !errors.Is(err, idempotency.ErrRunning) || !time.Now().Before(until) {
			return kept, err
		}
		select {
		case <-x.Done():
			return nil, idempotency.ErrRunning
		case <-time.After(pause):
		}
	}
}

// performOnce does a write unless its key is taken. Errors: ErrRunning while an
// earlier request with the key runs.
func (s *Server) performOnce(
	x *exchange,
	r *http.Request,
	o *operation,
	request idempotency.Request,
	do func(context.Context) error,
) error {
	ticket, err := s.idempotency.Begin(request, o.render)
	if err != nil {
		return err
	}
	defer ticket.Close()
	if o.row.Outside {
		if err := ticket.Reserve(x); err != nil && !ticket.Lost() {
			return err
		}
	}
	x.held = &heldAnswer{}
	defer func() { x.held = nil }()
	if !ticket.Lost() {
		err = do(txn.WithRequestHook(x, ticket))
	}
	if kept, earlier := ticket.EarlierAnswer(x); kept != nil || earlier != nil {
		x.held, x.status = nil, 0
		if errors.Is(earlier, idempotency.ErrRunning) {
			return earlier
		}
		return x.replay(kept, earlier)
	}
	if err != nil {
		x.writeError(r, err)
	}
	ticket.Finish(x.heldReply(o))
	x.sendHeld()
	return nil
}

func idempotencyRequest(x *exchange, r *http.Request, body func(bool) (idempotency.Hash, bool)) idempotency.Request {
	return idempotency.Request{
		ID:     idempotency.ID{Tenant: x.who.TenantID, Credential: x.who.Credential(), Key: r.Header[keyHeader][0]},
		Target: idempotency.Target(r.Method, r.URL.RequestURI()), Body: body,
	}
}

// bodyIsUnread reports whether a request can still be performed: its body is kept by
// the caller, or nothing of an upload was read yet.
func bodyIsUnread(r *http.Request) bool {
	b, hashed := r.Body.(*hashedBody)
	return !hashed || !b.started
}

// heldReply returns the buffered answer as a repetition receives it, nil where there
// is none or it was a stream, which has been sent.
func (x *exchange) heldReply(o *operation) *idempotency.Answer {
	if x.held == nil || x.status == 0 {
		return nil
	}
	if x.held.once != nil && x.status < http.StatusBadRequest {
		a, err := o.render(x.held.once)
		if err != nil {
			return nil // a repetition performs the write again, rather than showing the secret
		}
		return a
	}
	h := x.Header()
	return &idempotency.Answer{
		Status: x.status, Media: h.Get("Content-Type"), ETag: h.Get("ETag"), Location: h.Get("Location"), Body: x.held.body.Bytes(),
	}
}

func (x *exchange) sendHeld() {
	held := x.held
	if x.held = nil; held == nil || x.status == 0 {
		return
	}
	x.w.WriteHeader(x.status)
	_, _ = x.Write(held.body.Bytes()) // net/http notices a client that left
}

// replay answers a write that an earlier request has done, or is doing.
func (x *exchange) replay(kept *idempotency.Answer, err error) error {
	if x.op.row.Repeats {
		err = inProgressError(err)
	}
	if errors.Is(err, idempotency.ErrRunning) {
		x.Header().Set("Retry-After", "1")
		return JSON(x, http.StatusAccepted, inProgress{true, "The first request with this Idempotency-Key is still running: " +
			"send the same request again after Retry-After seconds for its answer."})
	}
	if err != nil {
		return err
	}
	x.Header()[replayedHeader] = yes
	x.send(kept)
	return nil
}

func (x *exchange) send(a *idempotency.Answer) {
	h := x.Header()
	set := func(name, value string) {
		if value != "" {
			h[name] = []string{value}
		}
	}
	set("Content-Type", a.Media)
	set("Etag", a.ETag)
	set("Location", a.Location)
	set("Cache-Control", noStore[0])
	if a.Media != "" {
		set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	x.WriteHeader(a.Status)
	if len(a.Body) > 0 {
		_, _ = x.Write(a.Body) // net/http notices a client that left
	}
}

// inProgress is the body of the 202 for a request that was repeated too early.
type inProgress struct {
	InProgress bool   `json:"in_progress" required:"true"`
	Detail     string `json:"detail" required:"true" doc:"What to do, for a person."`
}

// hashUpload hashes a body while the handler reads it. The hash is known once all
// of it was read.
func hashUpload(r *http.Request) func(wait bool) (idempotency.Hash, bool) {
	b := &hashedBody{ReadCloser: r.Body, sum: sha256.New(), remaining: r.ContentLength, max: MaxUpload + formSlack}
	b.ended = b.remaining == 0
	r.Body = b
	return b.hash
}

type hashedBody struct {
	io.ReadCloser
	sum       hash.Hash
	remaining int64 // bytes to come; negative: unknown
	max       int64
	ended     bool
	started   bool
}

// Read implements io.Reader.
func (b *hashedBody) Read(p []byte) (int, error) {
	b.started = true
	n, err := b.ReadCloser.Read(p)
	b.sum.Write(p[:n])
	b.max -= int64(n)
	if b.remaining > 0 {
		b.remaining -= int64(n)
		b.ended = b.remaining == 0
	}
	b.ended = b.ended || err == io.EOF
	return n, err
}

func (b *hashedBody) hash(wait bool) (h idempotency.Hash, known bool) {
	if wait && !b.ended {
		_, _ = io.Copy(io.Discard, io.LimitReader(b, b.max)) // a body that is cut off has no hash
	}
	if !b.ended {
		return h, false
	}
	return idempotency.Hash(b.sum.Sum(nil)), true
}
