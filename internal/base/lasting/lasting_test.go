package lasting_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/lasting"
)

func TestState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		s := lasting.New(slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
					return slog.Attr{}
				}
				return a
			},
		})), "the database is away")
		s.End()
		for range 2 {
			for range 150 { // seconds, in each of which fourteen kinds of work notice it
				var wg sync.WaitGroup
				for range 14 {
					wg.Go(func() { s.Notice("err", errors.New("refused")) })
				}
				wg.Wait()
				if !s.Holds() {
					t.Error("it does not hold")
				}
				time.Sleep(time.Second)
			}
			s.End()
			s.End()
		}
		once := `msg="the database is away" err=refused
msg="still: the database is away" for=1m0s noticed=841 err=refused
msg="still: the database is away" for=2m0s noticed=1681 err=refused
msg="over: the database is away" after=2m30s noticed=2100
`
		if diff := cmp.Diff(once+once, lines.String()); diff != "" {
			t.Error(diff)
		}
	})
}
