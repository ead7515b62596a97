package sqldb

import "context"

// Sent is a statement that is about to run.
type Sent struct {
	Text string
	Args []any
	Tx   *Tx // nil outside of write transactions
}

type recorderKey struct{}

// WithRecorder returns a context in which [Open] returns a database that calls sent
// with every statement. It is for tests of whole servers, which open their databases
// themselves.
func WithRecorder(ctx context.Context, sent func(Sent)) context.Context {
	return context.WithValue(ctx, recorderKey{}, sent)
}

func recorderOf(ctx context.Context) func(Sent) {
	sent, _ := ctx.Value(recorderKey{}).(func(Sent))
	return sent
}

// sent reports a statement to the tests.
func (c *Config) sent(text string, args []any, tx *Tx) {
	if c.OnStatement != nil {
		c.OnStatement(text, args)
	}
	if c.recorded != nil {
		c.recorded(Sent{text, args, tx})
	}
}
