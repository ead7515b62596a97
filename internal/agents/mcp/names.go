package mcp

import (
	"fmt"
	"regexp"
	"strings"
)

// maxName is the longest name of a tool; package tool has the same limit.
const maxName = 64

var notInName = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// ToolName turns any text into a tool name that models and MCP clients accept.
func ToolName(text string) string { return sanitized(text) }

func sanitized(text string) string {
	name := strings.Trim(notInName.ReplaceAllString(text, "_"), "_")
	if name == "" {
		name = "tool"
	}
	return name[:min(len(name), maxName)]
}

// SlugOf returns the prefix that stands for a server or an integration in tool names.
func SlugOf(name string) string {
	slug := strings.ToLower(strings.Trim(notInName.ReplaceAllString(name, "_"), "_"))
	if slug == "" {
		slug = "server"
	}
	return slug[:min(len(slug), maxName/2)]
}

// Namer assigns unique names to tools. All names are announced before the first is
// assigned, so that two tools of one name both get their server's prefix, in
// whichever order they come.
type Namer struct {
	reserved map[string]bool // of built-in tools
	wanted   map[string]int
	assigned map[string]bool
}

// NewNamer returns a namer that assigns none of the reserved names.
func NewNamer(reserved []string) *Namer {
	n := &Namer{reserved: map[string]bool{}, wanted: map[string]int{}, assigned: map[string]bool{}}
	for _, name := range reserved {
		n.reserved[name] = true
	}
	return n
}

// Announce registers a name that a tool has by itself.
func (n *Namer) Announce(name string) { n.wanted[sanitized(name)]++ }

// Name returns an unused name for a tool.
func (n *Namer) Name(slug, own string) string {
	name := sanitized(own)
	if n.reserved[name] || n.wanted[name] > 1 {
		name = slug + "_" + name
		name = name[:min(len(name), maxName)]
	}
	for i := 2; n.reserved[name] || n.assigned[name]; i++ {
		suffix := fmt.Sprintf("_%d", i)
		name = name[:min(len(name), maxName-len(suffix))] + suffix
	}
	n.assigned[name] = true
	return name
}
