package text_test

import (
	"strings"
	"testing"

	"agentd/internal/base/text"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	fields := []string{"name", "description", "system_prompt", "built_in_tools", "model_provider", "limit", "cursor"}
	for name, want := range map[string]string{
		"nme":                      "name",
		"limt":                     "limit",
		"LIMIT":                    "limit",
		"tools":                    "built_in_tools",
		"system":                   "system_prompt",
		"desription":               "description",
		"colour":                   "",
		"":                         "",
		"x":                        "",
		strings.Repeat("name", 40): "",
	} {
		if got := text.Nearest(name, fields); got != want {
			t.Errorf("%q: %q, not %q", name, got, want)
		}
	}
	if got := text.Nearest("prompt", []string{"system_prompt", "user_prompt"}); got != "" {
		t.Errorf("two candidates contain the name, and %q was chosen", got)
	}
}
