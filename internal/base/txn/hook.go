package txn

import "context"

// RequestHook takes part in every transaction of a request. The edge uses it to
// put what belongs to a request (its idempotency record) into the transaction
// that has its effect, without the slices between knowing of it:
//
//	edge:    ctx = WithRequestHook(ctx, operation)      idempotency.Operation
//	slice:   Writer.Write(ctx, do)
//	adapter:   Wrap(ctx, do)(tx)
//	             hook.BeginTx(tx)                       reserves the key, or ends the transaction
//	             do(tx)                                 the effect; it may call Answer(tx, answer)
//	             hook.AnswerTx(tx, answer)              stores the answer
//	           commit                                   key, effect and answer, or none of them
//
// A slice states its answer in one of two ways: [Answer] inside the
// transaction, or [WithAnswer] before a transaction that other code opens.
type RequestHook interface {
	// BeginTx runs first in every transaction of the request. Its error ends the
	// transaction with nothing written.
	BeginTx(tx Tx) error
	// AnswerTx receives, inside a transaction, the answer to the request.
	AnswerTx(tx Tx, answer any) error
}

type hookKey struct{}

// WithRequestHook returns a context whose transactions call the hook.
func WithRequestHook(ctx context.Context, h RequestHook) context.Context {
	return context.WithValue(ctx, hookKey{}, h)
}

func hookOf(ctx context.Context) RequestHook {
	h, _ := ctx.Value(hookKey{}).(RequestHook)
	return h
}

// Wrap returns the closure that a Writer runs for ctx: do between the calls of
// the request's hook. Without a hook it is do.
func Wrap(ctx context.Context, do func(Tx) error) func(Tx) error {
	h := hookOf(ctx)
	if h == nil {
		return do
	}
	answer, _ := ctx.Value(answerKey{}).(func() any)
	return func(tx Tx) error {
		if err := h.BeginTx(tx); err != nil {
			return err
		}
		if err := do(tx); err != nil || answer == nil {
			return err
		}
		return h.AnswerTx(tx, answer())
	}
}

type answerKey struct{}

// WithAnswer returns a context for a request's only transaction, at whose end
// the hook receives the answer; see [Answer]. answer is called at that time, so
// that it may use what the transaction computed. The answer that was set first
// stays: it is that of the request, and a later one that of a part of it.
func WithAnswer(ctx context.Context, answer func() any) context.Context {
	if hookOf(ctx) == nil || ctx.Value(answerKey{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, answerKey{}, answer)
}

// WithoutRequestHook returns a context whose transactions are parts of a request, each
// for itself, and not its answer.
func WithoutRequestHook(ctx context.Context) context.Context {
	return context.WithValue(ctx, hookKey{}, nil)
}

// HasRequestHook reports whether a request has a hook: whether it may turn out,
// at its first write, that the request was carried out before.
func HasRequestHook(ctx context.Context) bool { return hookOf(ctx) != nil }

// WantsAnswer reports whether the request has a hook that stores its answer. It
// lets callers skip rendering an expensive answer inside the transaction.
func WantsAnswer(tx Tx) bool { return hookOf(tx.Context()) != nil }

// Answer states, inside the transaction that has a request's effect, the value
// that the request's function will return. Where the request carries an
// idempotency key, the answer is stored in the same commit as the effect, so
// that a crash leaves both or neither. Without a hook it does nothing.
func Answer(tx Tx, answer any) error {
	if h := hookOf(tx.Context()); h != nil {
		return h.AnswerTx(tx, answer)
	}
	return nil
}
