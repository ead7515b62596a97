// Package shortlog writes log records for a person at a terminal: one short line
// each, a request as time, method, path, status and duration.
package shortlog

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Handler is a slog.Handler. It is safe for concurrent use.
type Handler struct {
	mu     *sync.Mutex
	w      io.Writer
	level  slog.Leveler
	attrs  []slog.Attr // with the group's prefix
	prefix string      // of the group, with a dot at the end
}

var _ slog.Handler = (*Handler)(nil)

// New returns a handler that writes records from a level on to w, each with one
// call of Write.
func New(w io.Writer, level slog.Leveler) *Handler {
	return &Handler{mu: new(sync.Mutex), w: w, level: level}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level.Level() }

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	other := *h
	other.attrs = append(slices.Clip(h.attrs), prefixed(h.prefix, attrs)...)
	return &other
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	other := *h
	other.prefix += name + "."
	return &other
}

func prefixed(prefix string, attrs []slog.Attr) []slog.Attr {
	all := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		all[i] = slog.Attr{Key: prefix + a.Key, Value: a.Value}
	}
	return all
}

// Handle implements slog.Handler.
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clip(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, slog.Attr{Key: h.prefix + a.Key, Value: a.Value})
		return true
	})
	var b strings.Builder
	if !r.Time.IsZero() {
		b.WriteString(r.Time.Format("15:04:05 "))
	}
	if r.Level != slog.LevelInfo {
		b.WriteString(r.Level.String() + " ")
	}
	if r.Message == "request" {
		writeRequest(&b, attrs)
	} else {
		b.WriteString(plain(r.Message))
		for _, a := range attrs {
			writeAttr(&b, "", a)
		}
	}
	b.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.w, b.String())
	return err
}

// writeRequest writes method, path, status and duration, and what else a failure has.
func writeRequest(b *strings.Builder, attrs []slog.Attr) {
	by := map[string]slog.Value{}
	for _, a := range attrs {
		by[a.Key] = a.Value.Resolve()
	}
	path := by["route"].String()
	if p, ok := by["path"]; ok {
		path = p.String()
	}
	if path == "" {
		path = "(no such path)"
	}
	var took time.Duration
	if v := by["duration_us"]; v.Kind() == slog.KindInt64 {
		took = time.Duration(v.Int64()) * time.Microsecond
	}
	fmt.Fprintf(b, "%s %s %s %s", plain(by["method"].String()), plain(path), by["status"].String(), shortDuration(took))
	for _, key := range []string{"code", "cause"} {
		if v, ok := by[key]; ok {
			b.WriteString(" " + plain(v.String()))
		}
	}
	if _, failed := by["cause"]; failed {
		writeAttr(b, "", slog.Attr{Key: "request_id", Value: by["request_id"]})
	}
}

func shortDuration(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d < 10*time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

func writeAttr(b *strings.Builder, prefix string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, inner := range v.Group() {
			writeAttr(b, prefix, inner)
		}
		return
	}
	if a.Equal(slog.Attr{}) {
		return
	}
	value := v.String()
	if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == '"' || !unicode.IsPrint(r) }) {
		value = strconv.Quote(value)
	}
	b.WriteString(" " + plain(prefix+a.Key) + "=" + value)
}

// plain escapes what a terminal would obey instead of showing it.
func plain(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
