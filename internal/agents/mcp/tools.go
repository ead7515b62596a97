package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	// callTimeout bounds a call.
	callTimeout = 2 * time.Minute
	// maxTools is how many tools an agent gets from all its servers: models choose
	// badly among more, and each costs tokens.
	maxTools = 256
)

// Toolsets provides agents with the tools of their servers.
type Toolsets struct {
	remote      Remote
	registry    *tool.Registry
	logger      *slog.Logger
	servers     *serverCache
	cache       *toolsetCache
	validator   *validator
	targets     *targets
	credentials *credentials
	links       *links
}

// Any reports whether an agent has any server, without connecting to one.
func (t *Toolsets) Any(ctx context.Context, tenant, agent string, mcp schema.Object) (bool, error) {
	f, err := parseField(mcp)
	if err == nil && slices.ContainsFunc(f.Servers, func(in InlineServer) bool { return in.Enabled == nil || *in.Enabled }) {
		return true, nil
	}
	assigned, err := t.servers.assigned(ctx, tenant, agent)
	return len(assigned) > 0, err
}

// Tools returns the tools of an agent's servers: those that are assigned to it and
// those of its mcp field. A server that cannot be reached adds none. A server that
// a person must authorize adds a tool for that.
func (t *Toolsets) Tools(ctx context.Context, tenant, agent string, mcp schema.Object) (tool.Set, error) {
	f, err := parseField(mcp)
	if err != nil {
		// It was validated when it was saved, but an older version may not have been.
		t.logger.Warn("an agent's mcp field cannot be read", "tenant", tenant, "agent", agent, "err", err)
		f = Field{}
	}
	sources, err := t.sources(ctx, tenant, agent, &f)
	if err != nil || len(sources) == 0 {
		return tool.Set{}, err
	}
	t.list(ctx, sources)
	key, fingerprint := setKey{tenant, agent}, toolsetFingerprint(&f, sources)
	if set, ok := t.cache.find(key, fingerprint); ok {
		return set, nil
	}
	tools := t.build(agent, &f, sources)
	if len(tools) > maxTools {
		t.logger.Warn("an agent's MCP servers offer too many tools", "tenant", tenant, "agent", agent, "tools", len(tools), "kept", maxTools)
		tools = tools[:maxTools]
	}
	set, errs := t.registry.Compile(tools...)
	for _, err := range errs {
		t.logger.Warn("a tool of an MCP server is left out", "tenant", tenant, "agent", agent, "err", err)
	}
	t.cache.keep(key, fingerprint, set)
	return set, nil
}

// source is one of an agent's servers, with what it offers.
type source struct {
	*Target
	slug        string
	registered  bool
	listing     *Listing // nil: it cannot be reached
	needsPerson bool     // a person must authorize it, or has
}

func (t *Toolsets) sources(ctx context.Context, tenant, agent string, f *Field) ([]*source, error) {
	assigned, err := t.servers.assigned(ctx, tenant, agent)
	if err != nil {
		return nil, err
	}
	var all []*source
	add := func(target *Target, err error, name string, registered bool) {
		if err != nil {
			t.logger.Warn("an MCP server cannot be used", "tenant", tenant, "agent", agent, "server", name, "err", err)
			return
		}
		all = append(all, &source{Target: target, slug: SlugOf(target.Name), registered: registered})
	}
	for _, v := range assigned {
		target, err := t.targets.of(v)
		add(target, err, v.Name, true)
	}
	for i := range f.Servers[:min(len(f.Servers), maxInline)] {
		in := &f.Servers[i]
		if in.Enabled == nil || *in.Enabled {
			target, err := t.targets.ofInline(tenant, agent, in)
			add(target, err, in.Name, false)
		}
	}
	return all, nil
}

// list fetches what the servers offer, from all at once.
func (t *Toolsets) list(ctx context.Context, sources []*source) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var all sync.WaitGroup
	for _, src := range sources {
		all.Go(func() {
			l, err := t.remote.List(ctx, src.Target)
			byPerson := src.oauth() && src.registered
			switch {
			case err == nil:
				src.listing, src.needsPerson = l, byPerson && t.credentials.granted(ctx, src.Target)
			case errors.Is(err, ErrUnauthorized) && byPerson:
				src.needsPerson = true
			default:
				t.logger.Warn("an MCP server adds no tools", "tenant", src.TenantID, "server", src.ServerID, "name", src.Name, "err", err)
			}
		})
	}
	all.Wait()
}

// build returns the tools, under names that are unique among them and the built-in
// ones.
func (t *Toolsets) build(agent string, f *Field, sources []*source) []tool.Tool {
	n := NewNamer(t.registry.Names())
	for _, src := range sources {
		if src.listing != nil {
			for _, remote := range src.listing.Tools {
				n.Announce(remote.Name)
			}
		}
	}
	var tools []tool.Tool
	for _, src := range sources {
		if src.needsPerson {
			tools = append(tools, t.connectTool(agent, src, n))
		}
		if src.listing == nil {
			continue
		}
		for _, remote := range src.listing.Tools {
			name := n.Name(src.slug, remote.Name)
			if f.allows(src, remote.Name, name) {
				tools = append(tools, t.remoteTool(agent, src, remote, name))
			}
		}
		if len(f.Resources) > 0 && slices.Contains(src.listing.Capabilities, "resources") {
			tools = append(tools, t.resourceTool(agent, src, f.Resources, n.Name(src.slug, src.slug+"_read_resource")))
		}
	}
	return tools
}

// allows reports whether allowed_tools lists a tool: by its own name, by the name
// that the model sees, or as <server>/<tool>; a trailing * matches anything.
func (f *Field) allows(src *source, own, shown string) bool {
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

func (t *Toolsets) remoteTool(agent string, src *source, remote RemoteTool, name string) tool.Tool {
	return tool.Tool{
		Name: name, Description: remote.Description, Parameters: remote.Schema,
		ReadOnly: remote.ReadOnly, Idempotent: remote.Idempotent || src.HonoursKeys, Timeout: callTimeout, Source: "mcp:" + src.Name,
		Run: func(ctx context.Context, call tool.Call) (tool.Result, error) {
			return t.withTarget(ctx, agent, src, func(target *Target) (tool.Result, error) {
				return t.remote.Call(ctx, target, remote.Name, jsontext.Value(call.Arguments), CallKey{call.StepID, call.RunID})
			})
		},
	}
}

var uriSchema = jsontext.Value(`{"type":"object","properties":{"uri":{"type":"string","minLength":1,"maxLength":2048}},` +
	`"required":["uri"],"additionalProperties":false}`)

// resourceTool returns a tool that reads the resources which allowed_resources lists.
func (t *Toolsets) resourceTool(agent string, src *source, rules []string, name string) tool.Tool {
	return tool.Tool{
		Name: name, Parameters: uriSchema, ReadOnly: true, Timeout: callTimeout, Source: "mcp:" + src.Name,
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
			return t.withTarget(ctx, agent, src, func(target *Target) (tool.Result, error) { return t.remote.Read(ctx, target, args.URI) })
		},
	}
}

var noArguments = jsontext.Value(`{"type":"object","properties":{},"additionalProperties":false}`)

// connectTool returns the tool of a server that a person must authorize: its call
// makes the run wait, and after the authorization returns which tools the server
// has. It stays among them, because the call that waited is repeated.
func (t *Toolsets) connectTool(agent string, src *source, n *Namer) tool.Tool {
	return tool.Tool{
		Name: n.Name(src.slug, src.slug+"_connect"), Parameters: noArguments, ReadOnly: true, Timeout: callTimeout, Source: "mcp:" + src.Name,
		Description: fmt.Sprintf("Connects to the MCP server %s. Call it before anything that needs this server, "+
			"unless its other tools are already available; a person may be asked to authorize it.", src.Name),
		Run: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
			return t.withTarget(ctx, agent, src, func(target *Target) (tool.Result, error) {
				l, err := t.remote.List(ctx, target)
				if err != nil {
					return tool.Result{}, err
				}
				names := make([]string, 0, len(l.Tools))
				for _, remote := range l.Tools {
					names = append(names, remote.Name)
				}
				return tool.Result{Output: fmt.Sprintf("Connected to %s. It has the tools: %s.", src.Name, strings.Join(names, ", "))}, nil
			})
		},
	}
}

// withTarget calls do with the current target of a source: since the model received
// its tools the server may have been changed, unassigned or deleted.
func (t *Toolsets) withTarget(
	ctx context.Context, agent string, src *source, do func(*Target) (tool.Result, error),
) (tool.Result, error) {
	target := src.Target
	if src.registered {
		assigned, err := t.servers.assigned(ctx, src.TenantID, agent)
		if err != nil {
			return tool.Result{}, err
		}
		i := slices.IndexFunc(assigned, func(v *Server) bool { return v.ID == src.ServerID })
		if i < 0 {
			return tool.Failure(fmt.Sprintf("The MCP server %s is no longer available to this agent.", src.Name)), nil
		}
		if target, err = t.targets.of(assigned[i]); err != nil {
			return tool.Result{}, err
		}
	}
	res, err := do(target)
	if !errors.Is(err, ErrUnauthorized) {
		return res, err
	}
	if src.registered && target.oauth() {
		res = tool.Failure(fmt.Sprintf("A person must authorize the MCP server %s first.", src.Name))
		res.Authorize = &tool.Authorization{ServerID: src.ServerID, Name: src.Name, URL: t.links.startURL(src.TenantID, src.ServerID, "")}
		return res, nil
	}
	return tool.Result{}, fault.New(fault.Unavailable, "", "The MCP server %s rejects the stored credential.", src.Name).Because(err)
}
