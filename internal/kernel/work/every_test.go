package work_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/kernel/work"
)

func TestEvery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var log bytes.Buffer
		calls, began := 0, time.Now()
		work.Every(ctx, time.Minute, slog.New(slog.NewTextHandler(&log, nil)), "upkeep failed", func(context.Context) error {
			if calls++; calls == 10 {
				cancel()
			}
			return errors.New("no database")
		})
		if took := time.Since(began); calls != 10 || took < 5*time.Minute || took > 15*time.Minute {
			t.Errorf("%d calls in %v", calls, took)
		}
		if n := strings.Count(log.String(), `msg="upkeep failed" err="no database"`); n != 9 { // the last error comes after the cancellation
			t.Errorf("%d warnings:\n%s", n, &log)
		}
	})
}
