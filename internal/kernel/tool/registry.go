package tool

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"agentd/internal/kernel/jsonform"
	"agentd/internal/kernel/model"
)

// Registry holds tools by name. It is immutable and safe for concurrent use.
type Registry struct {
	limits  Limits
	orphans *orphans
	tools   map[string]*entry
	names   []string // in the order of registration
}

// Limits of calls. Zero values mean the defaults in brackets.
type Limits struct {
	Timeout   time.Duration // of tools that do not set their own [30 s]
	Arguments int           // bytes [1 MiB]
	Output    int           // bytes of a result; a longer one is cut [64 KiB]
	// Disabled reports whether the operator has switched off a tool: it is not offered,
	// and calls of it fail. Nil: none is.
	Disabled func(name string) bool
}

func (l Limits) disabled(name string) bool { return l.Disabled != nil && l.Disabled(name) }

type entry struct {
	Tool
	schema  *jsonform.Schema
	offer   model.ToolSpec
	orphans *orphans // the registry's
}

var validName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// NewRegistry returns a registry of the tools. It compiles their schemas.
func NewRegistry(limits Limits, tools ...Tool) (*Registry, error) {
	limits.Timeout = cmp.Or(limits.Timeout, 30*time.Second)
	limits.Arguments = cmp.Or(limits.Arguments, 1<<20)
	limits.Output = cmp.Or(limits.Output, 64<<10)
	r := &Registry{limits: limits, orphans: new(orphans), tools: make(map[string]*entry, len(tools))}
	for _, t := range tools {
		if r.tools[t.Name] != nil {
			return nil, fmt.Errorf("the tool %q is registered twice", t.Name)
		}
		e, err := r.entry(t)
		if err != nil {
			return nil, err
		}
		r.tools[t.Name] = e
		r.names = append(r.names, t.Name)
	}
	return r, nil
}

func (r *Registry) entry(t Tool) (*entry, error) {
	if !validName.MatchString(t.Name) || t.Run == nil {
		return nil, fmt.Errorf("the tool %q has an invalid name or no Run function", t.Name)
	}
	schema, err := compile(t.Parameters)
	if err != nil {
		return nil, fmt.Errorf("the tool %q: %w", t.Name, err)
	}
	t.Timeout = cmp.Or(t.Timeout, r.limits.Timeout)
	return &entry{t, schema, t.spec(), r.orphans}, nil
}

// Compile returns a set of tools that are not in the registry, under the
// registry's limits. A tool that is invalid or whose name is taken is left out,
// and bad has an error for it.
func (r *Registry) Compile(tools ...Tool) (set Set, bad []error) {
	set.limits = r.limits
	for _, t := range tools {
		e, err := r.entry(t)
		if err == nil && set.find(t.Name) != nil {
			err = fmt.Errorf("the tool %q is registered twice", t.Name)
		}
		if err != nil {
			bad = append(bad, err)
			continue
		}
		set.entries = append(set.entries, e)
	}
	return set, bad
}

// LeftBehind returns how many calls still run although nothing waits for them any
// more, because their tools ignored the end of their context.
func (r *Registry) LeftBehind() int { return r.orphans.count() }

// Tools returns the tools in the order of their registration.
func (r *Registry) Tools() []Tool {
	all := make([]Tool, len(r.names))
	for i, name := range r.names {
		all[i] = r.tools[name].Tool
	}
	return all
}

// Names returns the tools' names in the order of their registration.
func (r *Registry) Names() []string { return slices.Clone(r.names) }

// Select returns the tools that an agent enables by name (its built_in_tools),
// each once and in that order, and the names that are not known.
func (r *Registry) Select(names []string) (set Set, unknown []string) {
	set.limits = r.limits
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		if e := r.tools[name]; e != nil {
			set.entries = append(set.entries, e)
		} else {
			unknown = append(unknown, name)
		}
	}
	return set, unknown
}

// Set is the tools of one agent. The zero Set is empty.
type Set struct {
	limits  Limits
	entries []*entry
}

// Join returns a set with the tools of both sets. If both have a tool of the same
// name, the receiver's is used.
func (s Set) Join(other Set) Set {
	if len(other.entries) == 0 {
		return s // also the zero Set, which has no limits
	}
	joined := Set{limits: other.limits, entries: slices.Clip(s.entries)}
	for _, e := range other.entries {
		if s.find(e.Name) == nil {
			joined.entries = append(joined.entries, e)
		}
	}
	return joined
}

// Filter returns a set of the tools whose name keep accepts.
func (s Set) Filter(keep func(name string) bool) Set {
	kept := Set{limits: s.limits}
	for _, e := range s.entries {
		if keep(e.Name) {
			kept.entries = append(kept.entries, e)
		}
	}
	return kept
}

// Len returns the number of tools.
func (s Set) Len() int { return len(s.entries) }

// Specs returns the descriptions of the tools for the model.
func (s Set) Specs() []model.ToolSpec {
	if len(s.entries) == 0 {
		return nil
	}
	specs := make([]model.ToolSpec, 0, len(s.entries))
	for _, e := range s.entries {
		if !s.limits.disabled(e.Name) {
			specs = append(specs, e.offer)
		}
	}
	return specs
}

// Lookup returns the tool of that name, if the set has one.
func (s Set) Lookup(name string) (Tool, bool) {
	if e := s.find(name); e != nil {
		return e.Tool, true
	}
	return Tool{}, false
}

func (s Set) find(name string) *entry {
	for _, e := range s.entries {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// unknown returns a failure that names the available tools.
func (s Set) unknown(name string) Result {
	if len(s.entries) == 0 {
		return Failure(fmt.Sprintf("There is no tool %q; no tools are available.", name))
	}
	names := make([]string, len(s.entries))
	for i, e := range s.entries {
		names[i] = e.Name
	}
	return Failure(fmt.Sprintf("There is no tool %q; the tools are: %s.", name, strings.Join(names, ", ")))
}
