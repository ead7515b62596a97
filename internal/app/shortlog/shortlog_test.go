package shortlog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"
	"time"
)

func TestRequests(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		log  func(*slog.Logger)
		want string
	}{
		{"known caller", func(l *slog.Logger) {
			l.Info("request", "method", "GET", "route", "/api/v1/agents/{agentId}", "status", 200, "duration_us", int64(1234), "bytes", 3,
				"request_id", "r1", "tenant", "t1", "path", "/api/v1/agents/7")
		}, "GET /api/v1/agents/7 200 1.2ms\n"},
		{"public route", func(l *slog.Logger) {
			l.Info("request", "method", "POST", "route", "/api/v1/share/{token}", "status", 404, "duration_us", int64(2_345_678), "code", "NOT_FOUND")
		}, "POST /api/v1/share/{token} 404 2.346s NOT_FOUND\n"},
		{"no route", func(l *slog.Logger) {
			l.Info("request", "method", "GET", "route", "", "status", 404, "duration_us", int64(90))
		},
			"GET (no such path) 404 100µs\n"},
		{"failure", func(l *slog.Logger) {
			l.Error("request", "method", "GET", "route", "/x", "status", 500, "duration_us", int64(25_000_000), "request_id", "r9", "code", "INTERNAL", "cause", "a\nb")
		}, `ERROR GET /x 500 25s INTERNAL a\nb request_id=r9` + "\n"},
		{"a path that a terminal would obey", func(l *slog.Logger) {
			l.Info("request", "method", "GET", "route", "/x", "path", "/\x1b[2J\"", "status", 200, "duration_us", int64(20_000))
		}, `GET /\x1b[2J" 200 20ms` + "\n"},
		{"others", func(l *slog.Logger) { l.Warn("it broke", "err", "no way", "n", 3, "empty", "") },
			`WARN it broke err="no way" n=3 empty=""` + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			tt.log(slog.New(New(&out, slog.LevelInfo)))
			at, rest, _ := strings.Cut(out.String(), " ")
			if _, err := time.Parse("15:04:05", at); err != nil || rest != tt.want {
				t.Errorf("got %q, want a time and %q", out.String(), tt.want)
			}
		})
	}
}

func TestLevels(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(New(&out, slog.LevelWarn))
	log.Info("hidden")
	log.Warn("shown")
	if got := out.String(); strings.Contains(got, "hidden") || !strings.Contains(got, "WARN shown") {
		t.Errorf("%q", got)
	}
}

// The handler keeps the rules of package slog.
func TestHandler(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return New(&out, slog.LevelInfo)
	}, func(t *testing.T) map[string]any {
		all := map[string]any{}
		for i, word := range strings.Fields(out.String()) {
			if _, err := time.Parse("15:04:05", word); i == 0 && err == nil {
				all[slog.TimeKey] = word
				continue
			}
			key, value, found := strings.Cut(word, "=")
			if !found {
				all[slog.MessageKey], all[slog.LevelKey] = word, "INFO" // the level that is not written
				continue
			}
			into := all
			for {
				group, rest, nested := strings.Cut(key, ".")
				if !nested {
					break
				}
				inner, _ := into[group].(map[string]any)
				if inner == nil {
					inner = map[string]any{}
					into[group] = inner
				}
				into, key = inner, rest
			}
			into[key] = value
		}
		return all
	})
}
