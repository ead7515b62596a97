package mcp

import (
	"fmt"
	"regexp"
	"strings"
)

// maxName is how long a tool's name may be (package tool).
const maxName = 64

var notInName = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// ToolName makes a name of any text that models and MCP clients take for a
// tool's.
func ToolName(text string) string { return sanitized(text) }

func sanitized(text string) string {
	name := strings.Trim(notInName.ReplaceAllString(text, "_"), "_")
	if name == "" {
		name = "tool"
	}
	return name[:min(len(name), maxName)]
}

// slugOf is how a server's name stands in names of tools.
func slugOf(name string) string {
	slug := strings.ToLower(strings.Trim(notInName.ReplaceAllString(name, "_"), "_"))
	if slug == "" {
		slug = "server"
	}
	return slug[:min(len(slug), maxName/2)]
}

// namer gives names to tools. All names are announced before the first is
// given, so that both of two tools of one name get their server's in front,
// whichever comes first.
type namer struct {
	reserved map[string]bool
	wanted   map[string]int
	given    map[string]bool
}

func newNamer(reserved []string) *namer {
	n := &namer{reserved: map[string]bool{}, wanted: map[string]int{}, given: map[string]bool{}}
	for _, name := range reserved {
		n.reserved[name] = true
	}
	return n
}

func (n *namer) announce(name string) { n.wanted[sanitized(name)]++ }

// name gives a name that is nobody else's.
func (n *namer) name(slug, own string) string {
	name := sanitized(own)
	if n.reserved[name] || n.wanted[name] > 1 {
		name = slug + "_" + name
		name = name[:min(len(name), maxName)]
	}
	for i := 2; n.reserved[name] || n.given[name]; i++ {
		suffix := fmt.Sprintf("_%d", i)
		name = name[:min(len(name), maxName-len(suffix))] + suffix
	}
	n.given[name] = true
	return name
}
