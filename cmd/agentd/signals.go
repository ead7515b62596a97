package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/mattn/go-isatty"

	"agentd/internal/app"
)

var errStopSignal = errors.New("the process was told to stop")

// stopSignals are SIGTERM and SIGINT. The first one ends ctx. The second one ends
// the process at once, unless a server runs, which then cuts its drain off; a
// third one ends the process then.
type stopSignals struct {
	ctx     context.Context
	serving atomic.Bool
	again   chan struct{} // closed by the second signal
}

// notify begins to receive the signals.
func notify() *stopSignals {
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &stopSignals{ctx: ctx, again: make(chan struct{})}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		cause := errStopSignal
		if <-signals == os.Interrupt && isatty.IsTerminal(os.Stdin.Fd()) {
			cause = app.ErrCtrlC
		}
		serving := s.serving.Load()
		if !serving {
			signal.Stop(signals)
		}
		cancel(cause)
		if serving {
			<-signals
			close(s.again)
		}
	}()
	return s
}

// second returns a channel that the second signal closes, for a server.
func (s *stopSignals) second() <-chan struct{} {
	s.serving.Store(true)
	return s.again
}
