package txn

import "context"

// Guard stands at the door of a request's transactions. It is how the edge puts
// what belongs to a request (its idempotency record) into the transaction that
// has its effect, without the slices between knowing of it.
type Guard interface {
	// Enter runs first in every transaction of the request. Its error ends the
	// transaction with nothing written.
	Enter(tx Tx) error
	// Answer is told, in a transaction, what the request will be answered.
	Answer(tx Tx, answer any) error
}

type guardKey struct{}

// WithGuard gives a context whose transactions the guard watches.
func WithGuard(ctx context.Context, g Guard) context.Context {
	return context.WithValue(ctx, guardKey{}, g)
}

func guardOf(ctx context.Context) Guard {
	g, _ := ctx.Value(guardKey{}).(Guard)
	return g
}

// Within is a closure as a Writer runs it for ctx: behind its guard, which is
// told the promised answer at the end.
func Within(ctx context.Context, do func(Tx) error) func(Tx) error {
	g := guardOf(ctx)
	if g == nil {
		return do
	}
	promised, _ := ctx.Value(promiseKey{}).(func() any)
	return func(tx Tx) error {
		if err := g.Enter(tx); err != nil {
			return err
		}
		if err := do(tx); err != nil || promised == nil {
			return err
		}
		return g.Answer(tx, promised())
	}
}

type promiseKey struct{}

// Promise gives a context for a request's only transaction, at whose end its
// answer is told; see [Answer]. answer is called then, so that it may use what
// the transaction found out.
func Promise(ctx context.Context, answer func() any) context.Context {
	if guardOf(ctx) == nil {
		return ctx
	}
	return context.WithValue(ctx, promiseKey{}, answer)
}

// Guarded says whether a request's transactions are watched: whether it may
// turn out, once it writes, to have been done before.
func Guarded(ctx context.Context) bool { return guardOf(ctx) != nil }

// Asked says whether somebody wants to know the answer: for those to whom it is
// dear to make inside a transaction.
func Asked(tx Tx) bool { return guardOf(tx.Context()) != nil }

// Answer says, inside the transaction that has a request's effect, what the
// request's function will answer: the very value that it returns. Where the
// request can be repeated (interface.md section 5, Idempotency) its answer is
// then kept in the same commit as its effect, so that a crash leaves both or
// neither. Outside of such a request it does nothing.
func Answer(tx Tx, answer any) error {
	if g := guardOf(tx.Context()); g != nil {
		return g.Answer(tx, answer)
	}
	return nil
}
