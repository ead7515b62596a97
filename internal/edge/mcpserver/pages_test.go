package mcpserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strings"
	"testing"

	"agentd/internal/agents/mcp"
)

// The style of every page is the one that its policy allows.
func TestPagesHaveTheStyleOfTheirPolicy(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]any{
		"consent": struct {
			mcp.Consent
			Action string
		}{mcp.Consent{Company: "Acme"}, mcp.StartPath},
		"done":   "Weather",
		"failed": struct{ Title, Detail string }{"No", "Because."},
	} {
		var page bytes.Buffer
		if err := pages.ExecuteTemplate(&page, name, data); err != nil {
			t.Fatal(err)
		}
		style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindSubmatch(page.Bytes())
		if style == nil {
			t.Fatalf("%s has no style: %s", name, page.Bytes())
		}
		sum := sha256.Sum256(style[1])
		if want := base64.StdEncoding.EncodeToString(sum[:]); !strings.Contains(styleHash, want) {
			t.Errorf("%s: the style %s is not allowed", name, style[1])
		}
	}
}
