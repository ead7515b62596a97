package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/tool"
)

const (
	// callTimeout is how long a call may take.
	callTimeout = 2 * time.Minute
	// maxTools is how many tools an agent gets from all its servers; models
	// do badly with more, and pay for each.
	maxTools = 256
)

// Any says quickly whether an agent has any tools from outside.
func (s *Service) Any(ctx context.Context, tenant, agent string, mcp schema.Object) (bool, error) {
	f, err := parseField(mcp)
	if err == nil && slices.ContainsFunc(f.Servers, func(in inlineServer) bool { return in.Enabled == nil || *in.Enabled }) {
		return true, nil
	}
	mine, err := s.assigned(ctx, tenant, agent)
	return len(mine) > 0, err
}

// Tools gives the tools of the servers that an agent has: those that are
// assigned to it, and those of its mcp field. A server that cannot be reached
// adds none. A server that a person must authorize adds a tool that says so.
func (s *Service) Tools(ctx context.Context, tenant, agent string, mcp schema.Object) (tool.Set, error) {
	f, err := parseField(mcp)
	if err != nil {
		// It was checked when it was saved; older ones may be anything.
		s.Logger.Warn("an agent's mcp field cannot be read", "tenant", tenant, "agent", agent, "err", err)
		f = agentField{}
	}
	sources, err := s.sources(ctx, tenant, agent, &f)
	if err != nil || len(sources) == 0 {
		return tool.Set{}, err
	}
	s.listAll(ctx, sources)
	key, made := setKey{tenant, agent}, toolsetFingerprint(&f, sources)
	if set, ok := s.sets.find(key, made); ok {
		return set, nil
	}
	tools := s.build(agent, &f, sources)
	if len(tools) > maxTools {
		s.Logger.Warn("an agent's servers have more tools than an agent gets", "tenant", tenant, "agent", agent, "tools", len(tools), "kept", maxTools)
		tools = tools[:maxTools]
	}
	set, bad := s.Registry.Compile(tools...)
	for _, err := range bad {
		s.Logger.Warn("a tool of an MCP server is left out", "tenant", tenant, "agent", agent, "err", err)
	}
	s.sets.keep(key, made, set)
	return set, nil
}

// source is a server that an agent has, and what it offers.
type source struct {
	*Target
	slug       string
	registered bool
	listing    *Listing // nil: nothing
	connects   bool     // a person must authorize it, or did
}

func (s *Service) sources(ctx context.Context, tenant, agent string, f *agentField) ([]*source, error) {
	mine, err := s.assigned(ctx, tenant, agent)
	if err != nil {
		return nil, err
	}
	var all []*source
	add := func(t *Target, err error, name string, registered bool) {
		if err != nil {
			s.Logger.Warn("an MCP server cannot be used", "tenant", tenant, "agent", agent, "server", name, "err", err)
			return
		}
		all = append(all, &source{Target: t, slug: slugOf(t.Name), registered: registered})
	}
	for _, v := range mine {
		t, err := s.target(v)
		add(t, err, v.Name, true)
	}
	for i := range f.Servers[:min(len(f.Servers), maxInline)] {
		in := &f.Servers[i]
		if in.Enabled == nil || *in.Enabled {
			t, err := s.inlineTarget(tenant, agent, in)
			add(t, err, in.Name, false)
		}
	}
	return all, nil
}

// listAll asks all servers side by side what they offer.
func (s *Service) listAll(ctx context.Context, sources []*source) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var asked sync.WaitGroup
	for _, src := range sources {
		asked.Go(func() {
			l, err := s.Remote.List(ctx, src.Target)
			people := src.oauth() && src.registered
			switch {
			case err == nil:
				src.listing, src.connects = l, people && s.granted(ctx, src.Target)
			case errors.Is(err, ErrUnauthorized) && people:
				src.connects = true
			default:
				s.Logger.Warn("an MCP server adds no tools", "tenant", src.TenantID, "server", src.ServerID, "name", src.Name, "err", err)
			}
		})
	}
	asked.Wait()
}

// build makes the tools, under names that no two of them and no built-in one
// share.
func (s *Service) build(agent string, f *agentField, sources []*source) []tool.Tool {
	n := newNamer(s.Registry.Names())
	for _, src := range sources {
		if src.listing != nil {
			for _, t := range src.listing.Tools {
				n.announce(t.Name)
			}
		}
	}
	var tools []tool.Tool
	for _, src := range sources {
		if src.connects {
			tools = append(tools, s.connectTool(agent, src, n))
		}
		if src.listing == nil {
			continue
		}
		for _, t := range src.listing.Tools {
			name := n.name(src.slug, t.Name)
			if f.allows(src, t.Name, name) {
				tools = append(tools, s.remoteTool(agent, src, t, name))
			}
		}
		if len(f.Resources) > 0 && slices.Contains(src.listing.Capabilities, "resources") {
			tools = append(tools, s.resourceTool(agent, src, f.Resources, n.name(src.slug, src.slug+"_read_resource")))
		}
	}
	return tools
}

// allows says whether allowed_tools has a tool: by its own name, by the name
// that the model sees, or as <server>/<tool>; a * at the end stands for
// anything.
func (f *agentField) allows(src *source, own, shown string) bool {
	return len(f.Tools) == 0 || slices.ContainsFunc(f.Tools, func(rule string) bool {
		for _, candidate := range []string{own, shown, src.slug + "/" + own, src.Name + "/" + own, src.ServerID + "/" + own} {
			if matches(rule, candidate) {
				return true
			}
		}
		return false
	})
}

func matches(rule, text string) bool {
	prefix, wild := strings.CutSuffix(rule, "*")
	return rule == text || wild && strings.HasPrefix(text, prefix)
}

func (s *Service) remoteTool(agent string, src *source, t RemoteTool, name string) tool.Tool {
	return tool.Tool{
		Name: name, Description: t.Description, Parameters: t.Schema,
		ReadOnly: t.ReadOnly, Idempotent: t.Idempotent, Timeout: callTimeout,
		Run: func(ctx context.Context, call tool.Call) (tool.Result, error) {
			return s.reach(ctx, agent, src, func(target *Target) (tool.Result, error) {
				return s.Remote.Call(ctx, target, t.Name, jsontext.Value(call.Arguments))
			})
		},
	}
}

var uriSchema = jsontext.Value(`{"type":"object","properties":{"uri":{"type":"string","minLength":1,"maxLength":2048}},"required":["uri"],"additionalProperties":false}`)

// resourceTool reads the resources that the agent's mcp field allows.
func (s *Service) resourceTool(agent string, src *source, rules []string, name string) tool.Tool {
	return tool.Tool{
		Name: name, Parameters: uriSchema, ReadOnly: true, Timeout: callTimeout,
		Description: fmt.Sprintf("Reads a resource of the MCP server %s by its URI. Allowed: %s.", src.Name, strings.Join(rules, ", ")),
		Run: func(ctx context.Context, call tool.Call) (tool.Result, error) {
			var args struct {
				URI string `json:"uri"`
			}
			if err := json.Unmarshal([]byte(call.Arguments), &args); err != nil {
				return tool.Result{}, err
			}
			if !slices.ContainsFunc(rules, func(rule string) bool { return matches(rule, args.URI) }) {
				return tool.Failure("This resource is not allowed. Allowed: " + strings.Join(rules, ", ") + "."), nil
			}
			return s.reach(ctx, agent, src, func(target *Target) (tool.Result, error) { return s.Remote.Read(ctx, target, args.URI) })
		},
	}
}

var noArguments = jsontext.Value(`{"type":"object","properties":{},"additionalProperties":false}`)

// connectTool is what the model has of a server that a person must authorize:
// its call makes the run wait, and after the authorization says which tools
// there are. It stays beside them, because the call that waited is made again.
func (s *Service) connectTool(agent string, src *source, n *namer) tool.Tool {
	return tool.Tool{
		Name: n.name(src.slug, src.slug+"_connect"), Parameters: noArguments, ReadOnly: true, Timeout: callTimeout,
		Description: fmt.Sprintf("Connects to the MCP server %s. Call it before anything that needs this server, unless its other tools are there already; a person may be asked to authorize it.", src.Name),
		Run: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
			return s.reach(ctx, agent, src, func(target *Target) (tool.Result, error) {
				l, err := s.Remote.List(ctx, target)
				if err != nil {
					return tool.Result{}, err
				}
				names := make([]string, 0, len(l.Tools))
				for _, t := range l.Tools {
					names = append(names, t.Name)
				}
				return tool.Result{Output: fmt.Sprintf("Connected to %s. It has the tools: %s.", src.Name, strings.Join(names, ", "))}, nil
			})
		},
	}
}

// reach does something with a server as it is now, which may be another, or
// nobody's any more, since the model was told of its tools.
func (s *Service) reach(ctx context.Context, agent string, src *source, do func(*Target) (tool.Result, error)) (tool.Result, error) {
	target := src.Target
	if src.registered {
		mine, err := s.assigned(ctx, src.TenantID, agent)
		if err != nil {
			return tool.Result{}, err
		}
		i := slices.IndexFunc(mine, func(v *Server) bool { return v.ID == src.ServerID })
		if i < 0 {
			return tool.Failure(fmt.Sprintf("The MCP server %s is not available to this agent any more.", src.Name)), nil
		}
		if target, err = s.target(mine[i]); err != nil {
			return tool.Result{}, err
		}
	}
	res, err := do(target)
	if !errors.Is(err, ErrUnauthorized) {
		return res, err
	}
	if src.registered && target.oauth() {
		res = tool.Failure(fmt.Sprintf("The MCP server %s must be authorized by a person first.", src.Name))
		res.Authorize = &tool.Authorization{ServerID: src.ServerID, Name: src.Name, URL: s.startURL(src.TenantID, src.ServerID)}
		return res, nil
	}
	return tool.Result{}, fault.New(fault.Unavailable, "", "The MCP server %s refuses the credential that is stored for it.", src.Name).Because(err)
}
