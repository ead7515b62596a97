package openaiclient

import (
	"errors"
	"strings"
	"testing"

	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// However long an endpoint explains its refusal, and however it divides words, what
// is shown and stored of it is one line of moderate length.
func TestExplanationsAreShort(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"one word":   strings.Repeat("x", 60_000),
		"many words": strings.Repeat("word ", 10_000),
		"wide runes": strings.Repeat("\u3000漢", 10_000),
		"lines":      strings.Repeat("a\r\n", 10_000),
		"then one":   "The field messages is wrong " + strings.Repeat("y", 60_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Config{}, modeltest.Default(modeltest.Answer{Status: 400, Error: text}))
			_, _, err := b.call(t)
			e, _ := errors.AsType[*model.Error](err)
			if e == nil || len(e.Cause.Error()) > 13_000 || len(e.Detail) > 600 || strings.ContainsAny(e.Detail, "\r\n") {
				t.Errorf("%d bytes: %.200v", len(e.Detail), err)
			}
		})
	}
}
