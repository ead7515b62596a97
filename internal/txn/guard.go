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

// Within is a closure as a Writer runs it for ctx: behind its guard.
func Within(ctx context.Context, do func(Tx) error) func(Tx) error {
	g := guardOf(ctx)
	if g == nil {
		return do
	}
	return func(tx Tx) error {
		if err := g.Enter(tx); err != nil {
			return err
		}
		return do(tx)
	}
}

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
