package app

import (
	"context"
	"slices"
)

// service is something that runs beside requests. Starting it returns how to
// stop it.
type service func() (stop func(context.Context), err error)

// background runs a loop until its context ends; stopping waits for it.
func background(loop func(context.Context)) service {
	return func() (func(context.Context), error) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			loop(ctx)
		}()
		return func(context.Context) {
			cancel()
			<-done
		}, nil
	}
}

// lifecycle knows how to stop what was started, last first.
type lifecycle struct{ stops []func(context.Context) }

// start starts a service. What was started before is stopped after it.
func (l *lifecycle) start(s service) error {
	stop, err := s()
	if err == nil {
		l.stops = append(l.stops, stop)
	}
	return err
}

// onStop registers a function that closes what is open already.
func (l *lifecycle) onStop(f func()) {
	l.stops = append(l.stops, func(context.Context) { f() })
}

// stop stops everything. Calling it again does nothing.
func (l *lifecycle) stop(ctx context.Context) {
	for _, stop := range slices.Backward(l.stops) {
		stop(ctx)
	}
	l.stops = nil
}
