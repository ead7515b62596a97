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
	// apiPrefix is where writes can be repeated.
	apiPrefix = "/api/v1/"
)

// repeatable says whether an operation takes an Idempotency-Key: every write by
// somebody who is known (interface.md section 5), and those that say so.
func repeatable(row route.Row) bool {
	switch row.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return !row.Public && (row.Repeats || strings.HasPrefix(row.Path, apiPrefix))
	}
	return false
}

// heldAnswer gathers an answer until it is kept.
type heldAnswer struct{ body bytes.Buffer }

// serveOnce serves a write that carries an Idempotency-Key.
func (s *Server) serveOnce(x *exchange, r *http.Request, o *operation, in *binder, answer func(context.Context, *exchange, *http.Request, any) error) error {
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
	arg, held, wrong := in.bind(x, r)
	defer held.release()
	if wrong != nil && held.data == nil {
		return wrong // nothing that a key could be bound to
	}
	sum := sha256.Sum256(held.data)
	return s.perform(x, r, o, func(bool) (idempotency.Hash, bool) { return sum, true }, func(ctx context.Context) error {
		if wrong != nil {
			return wrong
		}
		return answer(ctx, x, r, arg)
	})
}

// serveRawOnce is serveOnce for an operation that reads its body itself.
func (s *Server) serveRawOnce(x *exchange, r *http.Request, o *operation, serve func(http.ResponseWriter, *http.Request, authz.Caller) error) error {
	if err := checkKey(r); err != nil {
		return err
	}
	return s.perform(x, r, o, hashUpload(r), func(ctx context.Context) error { return serve(x, r.WithContext(ctx), x.who) })
}

// Place says, in the transaction of a write (txn.Answer), where its answer will
// be. It is what a row that is Attached tells of a write whose answer comes long
// after its effect, or is a stream.
type Place string

// serveAttached serves a write that tells its Place. Nothing of its answer is
// kept but that: Serve asks with DoneBefore where a repetition is answered from,
// which may be while the first one is still answered.
func (s *Server) serveAttached(x *exchange, r *http.Request, serve func(http.ResponseWriter, *http.Request, authz.Caller) error) error {
	if err := checkKey(r); err != nil {
		return err
	}
	if s.once == nil {
		return serve(x, r, x.who)
	}
	request := onceRequest(x, r, hashUpload(r))
	placed := func(v any) (*idempotency.Answer, error) {
		return &idempotency.Answer{Status: http.StatusOK, Location: string(v.(Place))}, nil
	}
	for until := time.Now().Add(s.patience); ; {
		ticket, err := s.once.Begin(request, placed)
		if errors.Is(err, idempotency.ErrRunning) && time.Now().Before(until) && x.Err() == nil {
			time.Sleep(5 * time.Millisecond) // the other's transaction is short
			continue
		}
		if err != nil {
			return running(err)
		}
		defer ticket.Close()
		x.ticket = ticket
		return serve(x, r.WithContext(txn.WithGuard(x, ticket)), x.who)
	}
}

// running is what a repetition is told whose first request takes too long, on the
// compatible routes: their clients take a 202 for the answer.
func running(err error) error {
	if !errors.Is(err, idempotency.ErrRunning) {
		return err
	}
	f := fault.New(fault.Unavailable, "request_in_progress", "The first request with this Idempotency-Key is still running: send the same request again.")
	f.RetryAfter = time.Second
	return f
}

// DoneBefore gives the Place that an earlier request with the same
// Idempotency-Key told, to the Serve of a row that is Attached after its write
// failed with an error. Where there was none the error comes back. Errors: that
// one; IDEMPOTENCY_KEY_REUSED.
func DoneBefore(w http.ResponseWriter, r *http.Request, failed error) (Place, error) {
	x := exchangeOf(r.Context())
	if x.ticket == nil {
		return "", failed
	}
	kept, err := x.ticket.Earlier(x)
	switch {
	case err != nil:
		return "", running(err)
	case kept == nil:
		return "", failed
	}
	w.Header()[replayedHeader] = yes
	return Place(kept.Location), nil
}

func checkKey(r *http.Request) error {
	keys := r.Header[keyHeader]
	if len(keys) > 1 {
		return fault.New(fault.Malformed, "INVALID_IDEMPOTENCY_KEY", "The header Idempotency-Key came more than once; send one.")
	}
	return idempotency.Check(keys[0])
}

// perform does a write unless it was done, and keeps its answer.
func (s *Server) perform(x *exchange, r *http.Request, o *operation, body func(bool) (idempotency.Hash, bool), do func(context.Context) error) error {
	if s.once == nil {
		return do(x)
	}
	ticket, err := s.once.Begin(onceRequest(x, r, body), o.render)
	if err != nil {
		return x.repeat(nil, err)
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
		err = do(txn.WithGuard(x, ticket))
	}
	if kept, earlier := ticket.Earlier(x); kept != nil || earlier != nil {
		x.held, x.status = nil, 0
		return x.repeat(kept, earlier)
	}
	if err != nil {
		x.refuse(r, err)
	}
	ticket.Finish(x.gathered())
	x.sendHeld()
	return nil
}

func onceRequest(x *exchange, r *http.Request, body func(bool) (idempotency.Hash, bool)) idempotency.Request {
	return idempotency.Request{
		ID:     idempotency.ID{Tenant: x.who.TenantID, User: x.who.UserID, Key: r.Header[keyHeader][0]},
		Target: idempotency.Target(r.Method, r.URL.RequestURI()), Body: body,
	}
}

// gathered is the answer that is held; nil where there is none, or it is a
// stream that was sent already.
func (x *exchange) gathered() *idempotency.Answer {
	if x.held == nil || x.status == 0 {
		return nil
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
	_, _ = x.Write(held.body.Bytes()) // a client that went away is seen by the server
}

// repeat answers a write that was begun before.
func (x *exchange) repeat(kept *idempotency.Answer, err error) error {
	if x.op.row.Repeats {
		err = running(err)
	}
	if errors.Is(err, idempotency.ErrRunning) {
		x.Header().Set("Retry-After", "1")
		return JSON(x, http.StatusAccepted, inProgress{true, "The first request with this Idempotency-Key is still running: send the same request again after Retry-After seconds for its answer."})
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
		_, _ = x.Write(a.Body) // a client that went away is seen by the server
	}
}

// inProgress is the body of the 202 of a repeat that came too early.
type inProgress struct {
	InProgress bool   `json:"in_progress" required:"true"`
	Detail     string `json:"detail" required:"true" doc:"What to do, for a person."`
}

// hashUpload hashes a body while it is read by others. The hash is known once
// all of it was.
func hashUpload(r *http.Request) func(wait bool) (idempotency.Hash, bool) {
	b := &hashedBody{ReadCloser: r.Body, sum: sha256.New(), left: r.ContentLength, most: MaxUpload + formSlack}
	b.ended = b.left == 0
	r.Body = b
	return b.hash
}

type hashedBody struct {
	io.ReadCloser
	sum   hash.Hash
	left  int64 // bytes that are still to come; negative: not known
	most  int64
	ended bool
}

// Read implements io.Reader.
func (b *hashedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.sum.Write(p[:n])
	b.most -= int64(n)
	if b.left > 0 {
		b.left -= int64(n)
		b.ended = b.left == 0
	}
	b.ended = b.ended || err == io.EOF
	return n, err
}

func (b *hashedBody) hash(wait bool) (h idempotency.Hash, known bool) {
	if wait && !b.ended {
		_, _ = io.Copy(io.Discard, io.LimitReader(b, b.most)) // what is cut off is not known
	}
	if !b.ended {
		return h, false
	}
	return idempotency.Hash(b.sum.Sum(nil)), true
}
