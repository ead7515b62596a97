package tool

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"agentd/internal/kernel/model"
)

// Registry holds tools by name. It does not change after it was made, and is
// safe for concurrent use.
type Registry struct {
	limits Limits
	left   *left
	tools  map[string]*entry
	names  []string // as registered
}

// Limits of calls. Zero values mean the defaults in brackets.
type Limits struct {
	Timeout   time.Duration // of tools that set none [30 s]
	Arguments int           // bytes [1 MiB]
	Output    int           // bytes of a result; what is longer is cut [64 KiB]
}

type entry struct {
	Tool
	schema *checker
	offer  model.ToolSpec
	left   *left // the registry's
}

var validName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// NewRegistry takes the tools, and compiles their schemas.
func NewRegistry(limits Limits, tools ...Tool) (*Registry, error) {
	limits.Timeout = cmp.Or(limits.Timeout, 30*time.Second)
	limits.Arguments = cmp.Or(limits.Arguments, 1<<20)
	limits.Output = cmp.Or(limits.Output, 64<<10)
	r := &Registry{limits: limits, left: new(left), tools: make(map[string]*entry, len(tools))}
	for _, t := range tools {
		if r.tools[t.Name] != nil {
			return nil, fmt.Errorf("the tool %q is there twice", t.Name)
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
		return nil, fmt.Errorf("the tool %q has a bad name or does nothing", t.Name)
	}
	schema, err := compile(t.Parameters)
	if err != nil {
		return nil, fmt.Errorf("the tool %q: %w", t.Name, err)
	}
	t.Timeout = cmp.Or(t.Timeout, r.limits.Timeout)
	return &entry{t, schema, t.spec(), r.left}, nil
}

// Compile makes a set of tools that come from elsewhere, under the registry's
// limits. A tool that is no good, or whose name is there already, is left out:
// one error each says why.
func (r *Registry) Compile(tools ...Tool) (set Set, bad []error) {
	set.limits = r.limits
	for _, t := range tools {
		e, err := r.entry(t)
		if err == nil && set.find(t.Name) != nil {
			err = fmt.Errorf("the tool %q is there twice", t.Name)
		}
		if err != nil {
			bad = append(bad, err)
			continue
		}
		set.entries = append(set.entries, e)
	}
	return set, bad
}

// LeftBehind is how many calls go on although nobody waits for them, because
// their tools did not heed the end of their context.
func (r *Registry) LeftBehind() int { return r.left.count() }

// Tools lists the tools in the order of their registration.
func (r *Registry) Tools() []Tool {
	all := make([]Tool, len(r.names))
	for i, name := range r.names {
		all[i] = r.tools[name].Tool
	}
	return all
}

// Names lists the tools in the order of their registration.
func (r *Registry) Names() []string { return slices.Clone(r.names) }

// Select gives the tools that an agent enables by name (its built_in_tools),
// each once, in that order; and the names that are not known.
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

// Join adds the tools of another set. Of two with one name the receiver's
// counts.
func (s Set) Join(other Set) Set {
	joined := Set{limits: other.limits, entries: slices.Clip(s.entries)}
	for _, e := range other.entries {
		if s.find(e.Name) == nil {
			joined.entries = append(joined.entries, e)
		}
	}
	return joined
}

// Len is how many tools there are.
func (s Set) Len() int { return len(s.entries) }

// Specs is what is offered to the model.
func (s Set) Specs() []model.ToolSpec {
	if len(s.entries) == 0 {
		return nil
	}
	specs := make([]model.ToolSpec, len(s.entries))
	for i, e := range s.entries {
		specs[i] = e.offer
	}
	return specs
}

// Lookup finds a tool of the set.
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

// unknown tells the model which tools there are.
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
