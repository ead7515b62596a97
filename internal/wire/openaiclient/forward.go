package openaiclient

import (
	"context"
	"errors"
	"slices"
	"time"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

var _ model.Forwarder = (*Client)(nil)

// Forward implements [model.Forwarder].
func (c *Client) Forward(ctx context.Context, f model.Forward, sink func([]byte) error) (out model.Forwarded, err error) {
	req := model.Request{Target: f.Target, OnRate: f.OnRate}
	ctx, span := modelcall.StartSpan(ctx, c.Tracer, &req)
	err = c.retry(ctx, &req, func(style dialect) (bool, error) {
		r := relay{f: &f, sink: sink, answer: answer{Answer: modelcall.Answer{Max: c.MaxAnswer, Began: time.Now()}}}
		err := c.Attempt(ctx, &req, c.completions(&f.Target, forwardBody(&f, style), f.Stream, 0), r.read)
		if err == nil || r.delivered {
			out = r.result(&req)
		}
		if r.sinkErr != nil { // the sink's error is the most specific
			return true, r.sinkErr
		}
		return r.delivered, err
	})
	modelcall.EndSpan(span, &model.Response{Usage: out.Usage, Model: f.Target.Model}, err)
	return out, err
}

var (
	wantsUsage = []byte(`{"include_usage":true}`)
	firstUsage = []byte(`"stream_options":{"include_usage":true},`)
)

// forwardBody returns the body for an endpoint: with its name of the model and, for a
// stream, with a request for the usage.
func forwardBody(f *model.Forward, style dialect) []byte {
	b := make([]byte, 0, len(f.Body)+len(f.Target.Model)+len(firstUsage)+16)
	from := 0
	if f.Stream && !style.noStreamOptions && f.Options == (model.Span{}) {
		at := slices.Index(f.Body, '{') + 1
		b = append(append(b, f.Body[:at]...), firstUsage...)
		from = at
	}
	type change struct {
		model.Span
		to []byte
	}
	changes := []change{{f.Model, modelcall.AppendString(nil, f.Target.Model)}}
	if f.Stream && !style.noStreamOptions && f.Options != (model.Span{}) {
		changes = append(changes, change{f.Options, wantsUsage})
	}
	slices.SortFunc(changes, func(a, b change) int { return a.From - b.From })
	for _, c := range changes {
		b = append(append(b, f.Body[from:c.From]...), c.to...)
		from = c.To
	}
	return append(b, f.Body[from:]...)
}

// relay passes one answer on, and determines its usage and validity on the way.
type relay struct {
	f         *model.Forward
	sink      func([]byte) error
	out       []byte // events that were read and not yet delivered
	delivered bool
	sinkErr   error // the sink's

	answer    answer // of an answer in another form, everything; otherwise usage and finish
	converted bool   // the answer has another form than requested
	textBytes int    // for estimating the usage that an endpoint does not report
	idSeen    []bool // by index of the tool call
}

// read reads the answer, streamed or whole depending on its first byte.
func (r *relay) read(in *modelcall.Reader) error {
	s := getStream(in, r.answer.Max)
	defer s.put()
	first, err := s.events.First()
	switch {
	case err != nil:
		return err
	case (first == '{') == r.f.Stream:
		r.converted = true
		return s.readEither(in, first, &r.answer)
	case !r.f.Stream:
		return r.readWhole(s)
	case !modelcall.IsEventStart(first):
		return modelcall.ErrGarbage
	}
	return r.readStream(s, in)
}

// readWhole passes on an answer that is one JSON value.
func (r *relay) readWhole(s *stream) error {
	body, err := s.events.Rest()
	if err != nil {
		return err
	}
	if s.fast.parse(body) && s.fast.hasChoice {
		q := &s.fast
		r.answer.SetUsage(q.usage)
		r.textBytes += len(q.text) + len(q.thinking)
		return r.deliver(body)
	}
	c, err := parse(body)
	if err != nil {
		return err
	}
	if len(c.Choices) == 0 {
		return modelcall.ErrEmpty
	}
	r.count(c)
	if body, err = r.fillCallIDs(body, c); err != nil {
		return err
	}
	return r.deliver(body)
}

var (
	dataStart = []byte("data: ")
	eventEnd  = []byte("\n\n")
	doneEvent = []byte("data: [DONE]\n\n")
)

// readStream passes events on, as many at once as were read at once.
func (r *relay) readStream(s *stream, in *modelcall.Reader) error {
	r.out = s.scratch[:0]
	s.events.BeforeRead = r.flush
	defer func() { s.scratch, s.events.BeforeRead = r.out[:0], nil }()
	for {
		data, err := s.events.Next()
		if err != nil {
			if err = r.answer.endOfStream(err); err != nil {
				return errors.Join(err, r.flush())
			}
			return r.sendDone()
		}
		if isDone(data) {
			in.LimitRest(afterDone)
			err := r.sendDone()
			s.events.Drain()
			return err
		}
		if err := r.event(s, data); err != nil {
			if err == modelcall.ErrGarbage && s.events.Incomplete() {
				err = modelcall.ErrTruncated
			}
			return errors.Join(err, r.flush())
		}
		if r.answer.Finish != "" && !in.Limited() {
			in.LimitRest(afterFinish)
		}
	}
}

// event adds one event. Blank ones are dropped, and so is the chunk of usage if the
// caller did not request it.
func (r *relay) event(s *stream, data []byte) error {
	if s.fast.parse(data) {
		q := &s.fast
		if err := r.answer.AddSize(len(data)); err != nil {
			return err
		}
		r.answer.SetUsage(q.usage)
		if len(q.finish) > 0 {
			r.answer.Finish = string(q.finish)
		}
		r.textBytes += len(q.text) + len(q.thinking)
		if q.hasChoice || r.f.Usage {
			r.put(data)
		}
		return nil
	}
	if isBlank(data) {
		return nil
	}
	c, err := parse(data)
	if err != nil {
		return err
	}
	if err := r.answer.AddSize(len(data)); err != nil {
		return err
	}
	r.count(c)
	if len(c.Choices) == 0 && !r.f.Usage {
		return nil
	}
	if data, err = r.fillCallIDs(data, c); err == nil {
		r.put(data)
	}
	return err
}

func (r *relay) put(data []byte) {
	r.out = append(append(append(r.out, dataStart...), data...), eventEnd...)
}

// count records usage, text sizes and the finish reason.
func (r *relay) count(c *completion) {
	r.answer.addUsage(c.Usage)
	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.FinishReason != "" {
			r.answer.Finish = string(choice.FinishReason)
		}
		for _, m := range []*message{&choice.Delta, &choice.Message} {
			r.textBytes += len(m.Content) + len(m.thinking())
			for j := range m.ToolCalls {
				r.textBytes += len(m.ToolCalls[j].Function.Name) + len(m.ToolCalls[j].Function.Arguments)
			}
		}
	}
}

func (r *relay) sendDone() error {
	r.out = append(r.out, doneEvent...)
	return r.flush()
}

// flush delivers the events that were read.
func (r *relay) flush() error {
	if len(r.out) == 0 {
		return nil
	}
	err := r.deliver(r.out)
	r.out = r.out[:0]
	return err
}

func (r *relay) deliver(piece []byte) error {
	r.delivered = true
	r.sinkErr = r.sink(piece)
	return r.sinkErr
}

// result returns the outcome, with estimated usage if the endpoint reported none.
func (r *relay) result(req *model.Request) model.Forwarded {
	if r.converted {
		resp := r.answer.response(req)
		if resp.Usage.Estimated {
			resp.Usage.InputTokens = len(r.f.Body) / 4
		}
		return model.Forwarded{Usage: resp.Usage, Response: &resp}
	}
	u := r.answer.Usage
	if !u.Plausible(&r.f.Target) {
		u = model.Usage{InputTokens: (len(r.f.Body) + 3) / 4, OutputTokens: (r.textBytes + 3) / 4, Estimated: true}
	}
	return model.Forwarded{Usage: u}
}
