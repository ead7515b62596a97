package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/egress"
	"agentd/internal/kernel/resource"
)

// Servers keeps the MCP servers that tenants register.
type Servers struct {
	store     *resource.Store[Server]
	cache     *serverCache
	writer    txn.Writer
	grants    Grants
	agents    Agents
	remote    Remote
	validator *validator
	targets   *targets
	links     *links
	egress    egress.CheckFunc
	clock     clock.Clock
	logger    *slog.Logger
}

func newServers(c Config, v *validator, t *targets, l *links) *Servers {
	s := &Servers{
		writer: c.Kernel.Writer, grants: c.Grants, remote: c.Remote,
		validator: v, targets: t, links: l, egress: c.Kernel.Egress, clock: c.Clock, logger: c.Logger,
	}
	s.store = resource.NewStore(s.kind(), c.Kernel)
	s.cache = newServerCache(s.store)
	return s
}

type serverIn struct {
	ServerID string `path:"serverId"`
}

type createIn struct {
	Body createBody
}

func (s *Servers) create(ctx context.Context, who authz.Caller, in *createIn) (view, error) {
	v := s.store.Blank()
	v.Name, v.Transport = in.Body.Name, in.Body.Transport
	if err := in.Body.apply(v); err != nil {
		return view{}, err
	}
	v.ID, v.TenantID = ident.New(), who.TenantID
	if err := s.admit(ctx, v, nil); err != nil {
		return view{}, err
	}
	ctx = txn.WithAnswer(ctx, func() any { return viewOf(v) })
	if err := s.store.Create(ctx, who, v); err != nil {
		return view{}, err
	}
	return viewOf(v), nil
}

// admit validates a server that is about to be stored, connects to it, and sets
// the outcome on it. Errors: fault.Invalid with every invalid field.
func (s *Servers) admit(ctx context.Context, v, old *Server) error {
	fields := s.validator.validate(v)
	for i, id := range v.Assigned {
		err := s.agents.Check(ctx, v.TenantID, id)
		if fault.Is(err, fault.NotFound) {
			fields = append(fields, fault.Field{Field: fmt.Sprintf("assigned_agent_ids[%d]", i), Message: "no such agent exists in this company"})
		} else if err != nil {
			return err
		}
	}
	if len(fields) > 0 {
		return fault.BadFields(fields...)
	}
	if err := s.egress.CheckNew(ctx, v.TenantID, addresses(old), addresses(v)); err != nil {
		return err
	}
	if !v.Enabled || old != nil && !reconnects(old, v) {
		return nil
	}
	_, err := s.probe(ctx, v)
	if e, ok := errors.AsType[*fault.Error](err); ok && (e.Code == codeDenied || e.Code == CodeUnresolved) && v.URL != "" {
		return fault.BadFields(fault.Field{Field: "url", Message: e.Detail})
	}
	return nil
}

// addresses returns the URL of a server, nothing for nil.
func addresses(v *Server) []egress.Address {
	if v == nil || v.URL == "" {
		return nil
	}
	return []egress.Address{{Field: "url", URL: v.URL}}
}

type serverList struct {
	_ struct{} `json:"-" name:"McpServerList"`

	Servers []view `json:"servers" required:"true"`
	Total   int    `json:"total" required:"true"`
}

func (s *Servers) listAll(ctx context.Context, who authz.Caller, _ *struct{}) (serverList, error) {
	all, err := s.store.List(ctx, who.TenantID, resource.Find{Limit: maxServers})
	return viewAll(all), err
}

func viewAll(all []*Server) serverList {
	l := serverList{Servers: make([]view, 0, len(all)), Total: len(all)}
	for _, v := range all {
		l.Servers = append(l.Servers, viewOf(v))
	}
	return l
}

func (s *Servers) get(ctx context.Context, who authz.Caller, in *serverIn) (view, error) {
	v, err := s.store.Get(ctx, who.TenantID, in.ServerID)
	if err != nil {
		return view{}, err
	}
	return viewOf(v), nil
}

type changeIn struct {
	ServerID string `path:"serverId"`
	Body     changeBody
}

func (s *Servers) change(ctx context.Context, who authz.Caller, in *changeIn) (view, error) {
	old, err := s.store.Get(ctx, who.TenantID, in.ServerID)
	if err != nil {
		return view{}, err
	}
	changed, err := in.Body.applied(old)
	if err != nil {
		return view{}, err
	}
	if err := s.admit(ctx, changed, old); err != nil {
		return view{}, err
	}
	v, err := s.store.Update(ctx, who, in.ServerID, func(tx txn.Tx, v *Server) error {
		if err := route.Match(tx.Context(), viewOf(v)); err != nil {
			return err
		}
		if v.Version != old.Version {
			return fault.Changed("MCP server")
		}
		meta := v.Meta
		*v = *changed
		v.Meta = meta
		return nil
	})
	if err != nil {
		return view{}, err
	}
	return viewOf(v), nil
}

// applied returns a changed copy of a server. Errors: secret_would_move.
func (in *changeBody) applied(old *Server) (*Server, error) {
	changed := *old
	if err := in.apply(&changed); err != nil {
		return nil, err
	}
	if in.movesSecret(old, &changed) {
		return nil, fault.New(fault.Conflict, "secret_would_move",
			"A secret is stored for this server and the change would send it elsewhere. "+
				"Send the secrets again (auth.secret, auth.client_secret, env) or clear them.")
	}
	return &changed, nil
}

type deletion struct {
	_ struct{} `json:"-" name:"McpServerDeletion"`

	OK      bool    `json:"ok" required:"true"`
	Cascade cascade `json:"cascade" required:"true"`
}

// cascade lists the agents that lost the server.
type cascade struct {
	_ struct{} `json:"-" name:"McpServerCascade"`

	Count  int      `json:"agents_with_stale_ref" required:"true" doc:"Number of agents it was assigned to."`
	Agents []string `json:"agent_ids" required:"true" doc:"At most 50 of them."`
}

const maxShown = 50

func (s *Servers) remove(ctx context.Context, who authz.Caller, in *serverIn) (deletion, error) {
	var out deletion
	err := s.writer.Write(ctx, func(tx txn.Tx) error {
		v, err := s.store.GetTx(tx, who.TenantID, in.ServerID)
		if err != nil {
			return err
		}
		if err := route.Match(tx.Context(), viewOf(v)); err != nil {
			return err
		}
		out = deletion{OK: true, Cascade: cascade{Count: len(v.Assigned), Agents: v.Assigned[:min(len(v.Assigned), maxShown)]}}
		return s.store.DeleteTx(tx, who, in.ServerID)
	})
	return out, err
}
