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
	if got := text.Nearest("tools", []string{"approval_required_tools", "built_in_tools", "auto_approve_tools"}); got != "built_in_tools" {
		t.Errorf("of three candidates that contain the name, %q was chosen", got)
	}
	if got := text.Nearest("prompt", []string{"first_prompt", "final_prompt"}); got != "" {
		t.Errorf("two candidates of one length contain the name, and %q was chosen", got)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{{"felines", "felines", 0}, {"felinnes", "felines", 1}, {"flaot", "float", 1}, {"tires", "tyres", 1}, {"boat", "cow", 3}, {"ab", "cd", 2}, {"abcd", "badc", 3}} {
		if got := text.Errors(tt.a, tt.b); got != tt.want {
			t.Errorf("Errors(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
