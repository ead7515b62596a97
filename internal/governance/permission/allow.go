package permission

import (
	"slices"
	"strings"

	"agentd/internal/kernel/policy"
)

// covers reports whether what a pattern matches has everything that another matches. A
// pattern is a name, or the beginning of names with a * at its end.
func covers(pattern, other string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	return pattern == other || open && strings.HasPrefix(other, prefix)
}

func anyCovers(patterns []string, other string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return covers(p, other) })
}

// within returns the patterns of asked that are within allowed. A pattern that is wider
// is cut to those of allowed that are within it.
func within(asked, allowed []string) []string {
	cut := []string{}
	add := func(p string) {
		if !slices.Contains(cut, p) {
			cut = append(cut, p)
		}
	}
	for _, p := range asked {
		if anyCovers(allowed, p) {
			add(p)
			continue
		}
		for _, a := range allowed {
			if covers(p, a) {
				add(a)
			}
		}
	}
	return cut
}

// kindOf returns the name under which a resource is compared: callers write memory and
// memories, file and files.
func kindOf(resource string) string {
	switch name := strings.ToLower(strings.TrimSpace(resource)); name {
	case "memory", "memories":
		return "memory"
	case "file", "files":
		return "files"
	case "workspace", "workspaces":
		return "workspaces"
	case "knowledge", "knowledge_base", "knowledge_bases":
		return "knowledge"
	default:
		return name
	}
}

// grants reports whether resource permissions allow an action. An empty list restricts
// nothing.
func grants(permissions []policy.Resource, resource, action string) bool {
	if len(permissions) == 0 {
		return true
	}
	return slices.ContainsFunc(permissions, func(p policy.Resource) bool {
		return (p.Resource == "*" || kindOf(p.Resource) == resource) && slices.Contains(p.Actions, action)
	})
}

// missing returns what of asked is not in allowed, as resource:action.
func missing(asked, allowed []policy.Resource) (names []string) {
	for _, p := range asked {
		for _, action := range p.Actions {
			if !grants(allowed, kindOf(p.Resource), action) {
				names = append(names, p.Resource+":"+action)
			}
		}
	}
	return names
}

// use is what a tool does with data of the company.
type use struct{ resource, action string }

// uses are the tools that read or write data of the company. The file tools work in
// workspaces, and so are bound by both words.
var uses = map[string][]use{
	"memory_save":      {{"memory", "write"}},
	"memory_search":    {{"memory", "read"}},
	"knowledge_search": {{"knowledge", "read"}},
	"read_file":        {{"files", "read"}, {"workspaces", "read"}},
	"list_files":       {{"files", "read"}, {"workspaces", "read"}},
	"write_file":       {{"files", "write"}, {"workspaces", "write"}},
}

// mayUse reports whether resource permissions allow a tool: one of the words for what it
// uses is enough.
func mayUse(permissions []policy.Resource, tool string) bool {
	all := uses[tool]
	return len(all) == 0 || slices.ContainsFunc(all, func(u use) bool { return grants(permissions, u.resource, u.action) })
}

// Touches reports whether permissions of resources judge calls of a tool.
func Touches(tool string) bool { return uses[tool] != nil }
