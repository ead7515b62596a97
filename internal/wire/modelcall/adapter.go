package modelcall

import (
	"context"
	"time"

	"agentd/internal/kernel/model"
)

// Encoded is a request in the form of a wire.
type Encoded struct {
	Call
	Dropped []string // parameters of the request that were left out
}

// Protocol is what a wire has of its own. D is how requests are written for an endpoint;
// see [Retry].
type Protocol[D comparable] struct {
	// Encode writes a request. Errors: *model.Error for what the wire cannot send.
	Encode func(req *model.Request, style D, stream bool) (Encoded, error)
	// Adapt returns the dialect to try after a rejection.
	Adapt func(style D, failure *model.Error, req *model.Request) (D, bool)
	// Count writes the request that counts a request's input, and returns which member of
	// the answer is the count; nil: the API has none.
	Count func(req *model.Request, style D) (q Call, member string, err error)
	// Decoder returns a reader of an answer.
	Decoder func(Answer) AnswerDecoder
	// Read reads a body with the decoder; nil: [ReadAnswer].
	Read func(in *Reader, limit int, d Decoder) error
}

// AnswerDecoder reads an answer of a wire. It embeds the Answer that it collects.
type AnswerDecoder interface {
	Decoder
	// Result returns the whole answer.
	Result(req *model.Request) model.Response
	// Collected returns what was read so far.
	Collected() *Answer
}

// Collected implements AnswerDecoder.
func (a *Answer) Collected() *Answer { return a }

// Adapter is the client of a wire. Safe for concurrent use.
type Adapter[D comparable] struct {
	Caller
	protocol Protocol[D]
	dialects Dialects[D]
}

// NewAdapter returns the client of a wire.
func NewAdapter[D comparable](c Config, p Protocol[D]) Adapter[D] {
	if p.Read == nil {
		p.Read = ReadAnswer
	}
	return Adapter[D]{Caller: New(c), protocol: p}
}

// Generate implements [model.Client]. The response of a failed call has its usage only.
func (c *Adapter[D]) Generate(ctx context.Context, req model.Request, sink func(model.Delta)) (model.Response, error) {
	ctx, span := StartSpan(ctx, c.Tracer, &req)
	resp, err := c.generate(ctx, &req, sink)
	EndSpan(span, &resp, err)
	return resp, err
}

func (c *Adapter[D]) generate(ctx context.Context, req *model.Request, sink func(model.Delta)) (resp model.Response, err error) {
	began := time.Now()
	adapt := func(style D, failure *model.Error) (D, bool) { return c.protocol.Adapt(style, failure, req) }
	err = Retry(ctx, &c.Caller, &c.dialects, req, adapt, func(style D) (bool, error) {
		q, err := c.protocol.Encode(req, style, sink != nil)
		if err != nil {
			return false, err
		}
		d := c.protocol.Decoder(NewAnswer(req, sink, began, c.MaxAnswer))
		a := d.Collected()
		q.Timeouts = c.Completion(sink != nil, req.Budget)
		err = c.Attempt(ctx, req, q.Call, func(in *Reader) error {
			if a.Detailed {
				in.Pause = a.Flush
			}
			return c.protocol.Read(in, c.MaxAnswer, d)
		})
		if err == nil {
			resp = d.Result(req)
			resp.Dropped = q.Dropped
		} else {
			resp = model.Response{Usage: a.Usage}
		}
		return a.Delivered, err
	})
	return resp, err
}

// List calls an endpoint's list of models.
func (c *Adapter[D]) List(ctx context.Context, to *model.Target, q Call) ([]model.Listed, error) {
	q.Timeouts = Within(ListTimeout)
	raw, err := c.Fetch(ctx, to, q, MaxList)
	if err != nil {
		return nil, err
	}
	return ReadList(raw, &model.Request{Target: *to})
}
