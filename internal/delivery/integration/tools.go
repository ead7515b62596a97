package integration

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/authz"
	"agentd/internal/base/cache"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/tool"
)

const (
	// callTimeout bounds a call of a tool.
	callTimeout = 60 * time.Second
	// maxAgentTools is how many tools an agent gets from all its integrations.
	maxAgentTools = 256
	// maxCachedTools bounds the compiled tools of a node.
	maxCachedTools = 20_000
)

// compiledCache holds the compiled tools of agents: their schemas are expensive to
// compile and rarely change.
type compiledCache = cache.Cache[agentKey, compiledTools]

type agentKey struct{ tenant, agent string }

type compiledTools struct {
	fingerprint [sha256.Size]byte
	set         tool.Set
}

func newCompiledCache() *compiledCache {
	return cache.New(cache.Options[agentKey, compiledTools]{
		Weight: maxCachedTools,
		Weigh:  func(_ agentKey, c compiledTools) uint32 { return uint32(1 + c.set.Len()) },
	})
}

// linked returns the enabled integrations of an agent. They are shared and must not be
// changed.
func (s *Toolsets) linked(ctx context.Context, tenant, agent string) ([]*Integration, error) {
	all, err := s.recent.Of(ctx, tenant)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	var linked []*Integration
	for _, v := range all {
		if slices.Contains(v.Assigned, agent) && s.enabled(v.ConnectorID) != nil {
			linked = append(linked, v)
		}
	}
	return linked, nil
}

// Any reports whether an agent has any integration.
func (s *Toolsets) Any(ctx context.Context, tenant, agent string) (bool, error) {
	linked, err := s.linked(ctx, tenant, agent)
	return len(linked) > 0, err
}

// Tools returns the tools of an agent's integrations. An integration whose operations
// cannot be read adds none and is logged.
func (s *Toolsets) Tools(ctx context.Context, tenant, agent string) (tool.Set, error) {
	linked, err := s.linked(ctx, tenant, agent)
	if err != nil || len(linked) == 0 {
		return tool.Set{}, err
	}
	key, fingerprint := agentKey{tenant, agent}, fingerprintOf(linked)
	if known, ok := s.compiled.Get(key); ok && known.fingerprint == fingerprint {
		return known.set, nil
	}
	tools := s.build(ctx, agent, linked)
	if len(tools) > maxAgentTools {
		s.Logger.Warn("an agent's integrations offer too many tools", "tenant", tenant, "agent", agent,
			"tools", len(tools), "kept", maxAgentTools)
		tools = tools[:maxAgentTools]
	}
	set, failed := s.Registry.Compile(tools...)
	for _, err := range failed {
		s.Logger.Warn("a tool of an integration is left out", "tenant", tenant, "agent", agent, "err", err)
	}
	s.compiled.Set(key, compiledTools{fingerprint, set})
	return set, nil
}

// fingerprintOf hashes what the tools are made of. That a call fails or works again is
// no reason to make them again.
func fingerprintOf(all []*Integration) [sha256.Size]byte {
	var b strings.Builder
	for _, v := range all {
		fmt.Fprintf(&b, "%s %q %s %q %d %d\n", v.ID, v.Name, v.ConnectorID, v.Config, v.Tools, v.Operations)
		if v.LastSync != nil && v.ConnectorID == connectorHTTP {
			fmt.Fprintln(&b, v.LastSync.UnixMicro()) // its document may have been read again
		}
	}
	return sha256.Sum256([]byte(b.String()))
}

// build returns the tools, under names that are unique among them and the built-in
// ones.
func (s *Toolsets) build(ctx context.Context, agent string, all []*Integration) []tool.Tool {
	names := mcp.NewNamer(s.Registry.Names())
	of := make([][]Operation, len(all))
	for i, v := range all {
		operations, _, err := s.operations(ctx, v, nil)
		if err != nil {
			s.Logger.Warn("an integration adds no tools", "tenant", v.TenantID, "integration", v.ID, "err", err)
		}
		for _, o := range operations {
			names.Announce(o.Name)
		}
		of[i] = operations
	}
	var tools []tool.Tool
	for i, v := range all {
		for j := range of[i] {
			tools = append(tools, s.tool(agent, v, &of[i][j], names.Name(mcp.SlugOf(v.Name), of[i][j].Name)))
		}
	}
	return tools
}

func (s *Toolsets) tool(agent string, v *Integration, o *Operation, name string) tool.Tool {
	id, tenant := v.ID, v.TenantID
	return tool.Tool{
		Name: name, Description: o.Description, Parameters: []byte(o.Parameters), ReadOnly: o.ReadOnly, Idempotent: o.retryable(v),
		Source: "integration:" + v.Name, Timeout: callTimeout,
		Run: func(ctx context.Context, call tool.Call) (tool.Result, error) {
			linked, err := s.linked(ctx, tenant, agent) // it may have been changed or unlinked since the model received its tools
			if err != nil {
				return tool.Result{}, err
			}
			i := slices.IndexFunc(linked, func(v *Integration) bool { return v.ID == id })
			if i < 0 {
				return tool.Failure("This integration is no longer available to this agent."), nil
			}
			return s.run(ctx, linked[i], o, &call)
		},
	}
}

// run makes a call and records how the integration fares.
func (s *Toolsets) run(ctx context.Context, v *Integration, o *Operation, call *tool.Call) (tool.Result, error) {
	c := s.enabled(v.ConnectorID)
	if c == nil {
		return tool.Failure("The operator switched this connector off."), nil
	}
	res, err := s.callTool(authz.WithTenant(ctx, v.TenantID), v, c, o, call)
	if ctx.Err() != nil {
		return res, err
	}
	if err == nil {
		s.record(ctx, v, "")
		return res, nil
	}
	why := explain(v, err)
	s.record(ctx, v, why)
	return tool.Result{Output: why, Failed: true, Cause: err}, nil
}

func (s *Toolsets) callTool(ctx context.Context, v *Integration, c *Connector, o *Operation, call *tool.Call) (tool.Result, error) {
	switch c.ID {
	case connectorPostgres:
		return s.callPostgres(ctx, v, o, call)
	case connectorSMTP:
		return s.callSMTP(ctx, v, call)
	}
	return s.callOperation(ctx, v, c, o, call)
}

// record stores that calls began to fail, or work again.
func (s *Toolsets) record(ctx context.Context, v *Integration, failure string) {
	if v.Failure == failure {
		return
	}
	now := s.Clock.Now()
	_, err := s.store.Update(context.WithoutCancel(ctx), authz.Caller{TenantID: v.TenantID}, v.ID, func(_ txn.Tx, current *Integration) error {
		if failure != "" && current.Failure == "" {
			current.FailedAt = &now
		}
		if current.Failure = failure; failure == "" {
			current.FailedAt = nil
			if current.ConnectorID != connectorHTTP {
				current.LastSync = &now
			}
		}
		return nil
	})
	if err != nil && !fault.Is(err, fault.NotFound) && !errors.Is(err, context.Canceled) {
		s.Logger.Warn("how an integration fares was not recorded", "tenant", v.TenantID, "integration", v.ID, "err", err)
	}
}

// operations returns the tools of an integration, and how many operations its document
// has. text is the document if it was just read; nil: the stored one.
func (s *core) operations(ctx context.Context, v *Integration, text []byte) (tools []Operation, total int, err error) {
	c := s.catalogue.byID[v.ConnectorID]
	if c == nil {
		return nil, 0, fault.New(fault.Invalid, "", "The connector %.50q does not exist.", v.ConnectorID)
	}
	if c.ID != connectorHTTP {
		return c.Operations, len(c.Operations), nil
	}
	if text == nil {
		if text, err = s.Documents.Get(ctx, v.TenantID, v.ID); err != nil || text == nil {
			return nil, 0, err
		}
	}
	d, err := parseDocument(text)
	if err != nil {
		return nil, 0, err
	}
	tools, total = d.operations(filterOf(v.values()))
	return tools, total, nil
}
