package modelcall

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
)

const (
	countTimeout = 10 * time.Second
	maxCount     = 64 << 10 // bytes of an answer
)

var _ model.Counter = (*Adapter[bool])(nil)

// CountTokens implements [model.Counter]. The endpoint is asked once: a count is worth no
// waiting.
func (c *Adapter[D]) CountTokens(ctx context.Context, req model.Request) (n int, err error) {
	if c.protocol.Count == nil {
		return 0, model.ErrCannotCount
	}
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	once := c.Caller
	once.MaxAttempts = 1
	adapt := func(style D, failure *model.Error) (D, bool) { return c.protocol.Adapt(style, failure, &req) }
	err = Retry(ctx, &once, &c.dialects, &req, adapt, func(style D) (bool, error) {
		q, member, err := c.protocol.Count(&req, style)
		if err != nil {
			return false, err
		}
		q.Timeouts = Within(countTimeout)
		raw, err := c.Fetch(ctx, &req.Target, q, maxCount)
		if err != nil {
			return false, err
		}
		n, err = readCount(raw, member)
		return false, err
	})
	return n, err
}

// readCount reads the member of an answer that is a number of tokens.
func readCount(raw []byte, member string) (int, error) {
	var answer map[string]jsontext.Value
	if err := Decode(raw, &answer); err != nil {
		return 0, noCount(err)
	}
	var n int
	if err := Decode(answer[member], &n); err != nil || n <= 0 {
		return 0, noCount(err)
	}
	return n, nil
}

func noCount(err error) error {
	return &model.Error{Code: CodeModel, Detail: "The model endpoint did not answer with a number of tokens.", Cause: err}
}
