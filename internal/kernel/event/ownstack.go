package event

import "context"

// maxOwnStacks bounds the functions that OnOwnStack runs at the same time.
const maxOwnStacks = 64

var stackSlots = make(chan struct{}, maxOwnStacks)

// OnOwnStack runs do on a new goroutine and waits for it. Reading from a
// database grows the stack, and a goroutine that then waits for hours would keep
// the large stack: ten thousand idle streams would hold ten thousand of them.
// A panic in do propagates to the caller. OnOwnStack returns do's error, or the
// cause of ctx's end if no slot became free before.
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
