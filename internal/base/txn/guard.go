package txn

import "context"

// RequestHook stands at the door of a request's transactions. It is how the edge puts
// what belongs to a request (its idempotency record) into the transaction that
// has its effect, without the slices between knowing of it.
type RequestHook interface {
	// BeginTx runs first in every transaction of the request. Its error ends the
	// transaction with nothing written.
	BeginTx(tx Tx) error
	// AnswerTx is told, in a transaction, what the request will be answered.
	AnswerTx(tx Tx, answer any) error
}

type hookKey struct{}

// WithRequestHook gives a context whose transactions the guard watches.
func WithRequestHook(ctx context.Context, g RequestHook) context.Context {
	return context.WithValue(ctx, hookKey{}, g)
}

func hookOf(ctx context.Context) RequestHook {
	g, _ := ctx.Value(hookKey{}).(RequestHook)
	return g
}

// Wrap is a closure as a Writer runs it for ctx: behind its guard, which is
// told the promised answer at the end.
func Wrap(ctx context.Context, do func(Tx) error) func(Tx) error {
	g := hookOf(ctx)
	if g == nil {
		return do
	}
	promised, _ := ctx.Value(answerKey{}).(func() any)
	return func(tx Tx) error {
		if err := g.BeginTx(tx); err != nil {
			return err
		}
		if err := do(tx); err != nil || promised == nil {
			return err
		}
		return g.AnswerTx(tx, promised())
	}
}

type answerKey struct{}

// WithAnswer gives a context for a request's only transaction, at whose end its
// answer is told; see [Answer]. answer is called then, so that it may use what
// the transaction found out.
func WithAnswer(ctx context.Context, answer func() any) context.Context {
	if hookOf(ctx) == nil {
		return ctx
	}
	return context.WithValue(ctx, answerKey{}, answer)
}

// HasRequestHook says whether a request's transactions are watched: whether it may
// turn out, once it writes, to have been done before.
func HasRequestHook(ctx context.Context) bool { return hookOf(ctx) != nil }

// WantsAnswer says whether somebody wants to know the answer: for those to whom it is
// dear to make inside a transaction.
func WantsAnswer(tx Tx) bool { return hookOf(tx.Context()) != nil }

// Answer says, inside the transaction that has a request's effect, what the
// request's function will answer: the very value that it returns. Where the
// request can be repeated (interface.md section 5, Idempotency) its answer is
// then kept in the same commit as its effect, so that a crash leaves both or
// neither. Outside of such a request it does nothing.
func Answer(tx Tx, answer any) error {
	if g := hookOf(tx.Context()); g != nil {
		return g.AnswerTx(tx, answer)
	}
	return nil
}
