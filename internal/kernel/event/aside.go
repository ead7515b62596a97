package event

import "context"

// maxOwnStacks is how many of the calls that Aside makes run beside each other.
const maxOwnStacks = 64

var stackSlots = make(chan struct{}, maxOwnStacks)

// OnOwnStack runs do on a goroutine of its own and waits for it. Reading a database
// takes a deep stack, which a goroutine that then waits for hours would keep:
// ten thousand idle streams, ten thousand deep stacks. A panic of do is the
// caller's. Error: do's, or ctx's where its turn did not come.
func OnOwnStack(ctx context.Context, do func() error) error {
	select {
	case stackSlots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	type outcome struct {
		err      error
		panicked any
	}
	done := make(chan outcome, 1)
	go func() {
		var out outcome
		defer func() {
			out.panicked = recover()
			<-stackSlots
			done <- out
		}()
		out.err = do()
	}()
	out := <-done
	if out.panicked != nil {
		panic(out.panicked)
	}
	return out.err
}
