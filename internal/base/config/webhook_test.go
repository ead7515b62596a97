package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWebhookWaits(t *testing.T) {
	t.Parallel()
	usual := []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour}
	for setting, want := range map[string][]time.Duration{
		"": usual, "60s,5m,30m,2h": usual, " 1s , 24h": {time.Second, 24 * time.Hour}, "50ms": {50 * time.Millisecond},
	} {
		if got, err := (Webhooks{RetryWaits: setting}).Waits(); err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("%q gives %v, %v", setting, got, err)
		}
	}
	for _, setting := range []string{"60", "1s,", "0s", "-1s", "25h", "soon", strings.Repeat("1s,", 20) + "1s"} {
		if got, err := (Webhooks{RetryWaits: setting}).Waits(); err == nil {
			t.Errorf("%q gives %v", setting, got)
		}
	}
}
