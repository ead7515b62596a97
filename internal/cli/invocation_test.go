package cli

import (
	"testing"
	"time"

	"agentd/internal/client"
)

func TestAgo(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "just now", 4 * time.Second: "just now", 5 * time.Second: "5 s ago", -time.Second: "just now",
		59 * time.Second: "59 s ago", time.Minute: "1 min ago", 59*time.Minute + 59*time.Second: "59 min ago",
		time.Hour: "1 h ago", 24 * time.Hour: "1 d ago", 40 * 24 * time.Hour: "2026-08-01", -time.Hour: "2026-09-10 13:00 UTC",
	} {
		if got := formatTime(now, now.Add(-d)); got != want {
			t.Errorf("%v ago: %q, want %q", d, got, want)
		}
	}
	if got := formatTime(now, time.Time{}); got != "-" {
		t.Errorf("never: %q", got)
	}
}

func TestTook(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "-", -1: "-", time.Microsecond: "1 ms", 12 * time.Millisecond: "12 ms", 1234 * time.Millisecond: "1.2 s",
		61 * time.Second: "1 min 1 s", 3*time.Hour + 4*time.Minute + 5*time.Second: "3 h 4 min",
	} {
		if got := formatDuration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestDollars(t *testing.T) {
	t.Parallel()
	for usd, want := range map[float64]string{0: "$0.00", 1.005: "$1.00", 12.5: "$12.50", 0.0012: "$0.0012", 0.000001: "$0.000001"} {
		if got := formatUSD(usd); got != want {
			t.Errorf("%v: %q, want %q", usd, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"hello-1.x_y": "hello-1.x_y", "": "''", "my agent": "'my agent'", "it's": `'it'\''s'`, "$(rm)": "'$(rm)'"} {
		if got := quote(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	cost := 0.0012
	end := ending{Metrics: client.Metrics{Steps: 3, InputTokens: 20, OutputTokens: 7, DurationMS: 1234}, CostUSD: &cost}
	if got, want := end.summary("r"), "run r: 3 steps, 20 tokens in, 7 out, 1.2 s, $0.0012"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
