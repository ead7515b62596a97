package mcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

type serverIn struct {
	ServerID string `path:"serverId"`
}

type createIn struct {
	Body createBody
}

func (s *Service) create(ctx context.Context, who authz.Caller, in *createIn) (view, error) {
	v := s.store.Blank()
	v.Name, v.Transport = in.Body.Name, in.Body.Transport
	if err := in.Body.apply(v); err != nil {
		return view{}, err
	}
	v.ID, v.TenantID = ident.New(), who.TenantID
	if err := s.admit(ctx, v, nil); err != nil {
		return view{}, err
	}
	ctx = txn.Promise(ctx, func() any { return show(v) })
	if err := s.store.Create(ctx, who, v); err != nil {
		return view{}, err
	}
	return show(v), nil
}

// admit checks a server that is about to be stored, connects to it, and notes
// on it how that went. Errors: fault.Invalid with every wrong field.
func (s *Service) admit(ctx context.Context, v, old *Server) error {
	wrong := s.validate(v)
	for i, id := range v.Assigned {
		err := s.agents.Check(ctx, v.TenantID, id)
		if fault.Is(err, fault.NotFound) {
			wrong = append(wrong, fault.Field{Field: fmt.Sprintf("assigned_agent_ids[%d]", i), Message: "there is no such agent in this company"})
		} else if err != nil {
			return err
		}
	}
	if len(wrong) > 0 {
		return fault.BadFields(wrong...)
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

// Codes that adapters give.
const (
	codeDenied     = "EGRESS_DENIED"
	CodeUnresolved = "HOST_UNKNOWN" // the name of the host leads nowhere
)

// probe connects to a server anew and notes on it how that went.
func (s *Service) probe(ctx context.Context, v *Server) (*Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	l, err := s.probed(ctx, v)
	if err != nil {
		v.Failure = s.complaint(v, err)
		return nil, err
	}
	now := s.Clock.Now()
	v.Failure, v.LastSynced, v.Capabilities = "", &now, l.Capabilities
	return l, nil
}

func (s *Service) probed(ctx context.Context, v *Server) (*Listing, error) {
	t, err := s.target(v)
	if err != nil {
		return nil, err
	}
	return s.Remote.Probe(ctx, t)
}

// complaint says to a person why a server cannot be used.
func (s *Service) complaint(v *Server, err error) string {
	if errors.Is(err, ErrUnauthorized) {
		if v.Secret != "" || v.APIKeyRef != "" || v.Transport == STDIO {
			return "The server refuses the credential that is stored for it."
		}
		return "The server must be authorized by a person first: POST " + collection + "/" + v.ID + "/authorize gives the address."
	}
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind != fault.Internal {
		return e.Detail
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("The server did not answer within %v.", connectTimeout)
	}
	s.Logger.Warn("an MCP server cannot be used", "tenant", v.TenantID, "server", v.ID, "err", err)
	return "The server cannot be used."
}

type serverList struct {
	_ struct{} `json:"-" name:"McpServerList"`

	Servers []view `json:"servers" required:"true"`
	Total   int    `json:"total" required:"true"`
}

func (s *Service) list(ctx context.Context, who authz.Caller, _ *struct{}) (serverList, error) {
	all, err := s.store.List(ctx, who.TenantID, resource.Find{Limit: maxServers})
	return shown(all), err
}

func shown(all []*Server) serverList {
	l := serverList{Servers: make([]view, 0, len(all)), Total: len(all)}
	for _, v := range all {
		l.Servers = append(l.Servers, show(v))
	}
	return l
}

func (s *Service) get(ctx context.Context, who authz.Caller, in *serverIn) (view, error) {
	v, err := s.store.Get(ctx, who.TenantID, in.ServerID)
	if err != nil {
		return view{}, err
	}
	return show(v), nil
}

type changeIn struct {
	ServerID string `path:"serverId"`
	Body     changeBody
}

func (s *Service) change(ctx context.Context, who authz.Caller, in *changeIn) (view, error) {
	old, err := s.store.Get(ctx, who.TenantID, in.ServerID)
	if err != nil {
		return view{}, err
	}
	tried, err := in.Body.changed(old)
	if err != nil {
		return view{}, err
	}
	if err := s.admit(ctx, tried, old); err != nil {
		return view{}, err
	}
	v, err := s.store.Update(ctx, who, in.ServerID, func(_ txn.Tx, v *Server) error {
		if v.Version != old.Version {
			return fault.Changed("MCP server")
		}
		meta := v.Meta
		*v = *tried
		v.Meta = meta
		return nil
	})
	if err != nil {
		return view{}, err
	}
	return show(v), nil
}

// changed gives a copy of a server with the change made. Errors:
// secret_would_move.
func (in *changeBody) changed(old *Server) (*Server, error) {
	changed := *old
	if err := in.apply(&changed); err != nil {
		return nil, err
	}
	if in.movesSecret(old, &changed) {
		return nil, fault.New(fault.Conflict, "secret_would_move",
			"A secret is stored for this server, and the change would take it to another place. Send the secrets along (auth.secret, auth.client_secret, env), or clear them.")
	}
	return &changed, nil
}

type deletion struct {
	_ struct{} `json:"-" name:"McpServerDeletion"`

	OK      bool    `json:"ok" required:"true"`
	Cascade cascade `json:"cascade" required:"true"`
}

// cascade says which agents lost the server.
type cascade struct {
	_ struct{} `json:"-" name:"McpServerCascade"`

	Count  int      `json:"agents_with_stale_ref" required:"true" doc:"How many agents it was assigned to."`
	Agents []string `json:"agent_ids" required:"true" doc:"Up to 50 of them."`
}

const maxShown = 50

func (s *Service) remove(ctx context.Context, who authz.Caller, in *serverIn) (deletion, error) {
	var out deletion
	err := s.write(ctx, func(tx txn.Tx) error {
		v, err := s.store.GetTx(tx, who.TenantID, in.ServerID)
		if err != nil {
			return err
		}
		out = deletion{OK: true, Cascade: cascade{Count: len(v.Assigned), Agents: v.Assigned[:min(len(v.Assigned), maxShown)]}}
		return s.store.DeleteTx(tx, who, in.ServerID)
	})
	return out, err
}

// testResult is how a test went. It is 200 whatever it says (interface.md
// section 7).
type testResult struct {
	_ struct{} `json:"-" name:"McpServerTest"`

	OK               bool      `json:"ok" required:"true"`
	Status           string    `json:"status" required:"true" enum:"active,error,disabled"`
	ToolCount        int       `json:"tool_count" required:"true"`
	Tools            []summary `json:"tools" required:"true"`
	Error            string    `json:"error,omitzero" doc:"Why ok is false."`
	AuthorizationURL string    `json:"authorization_url,omitzero" format:"uri" doc:"Where a person authorizes the server, if that is what it wants."`
	LatencyMS        float64   `json:"latency_ms" required:"true"`
}

type summary struct {
	_ struct{} `json:"-" name:"McpToolSummary"`

	Name        string `json:"name" required:"true"`
	Description string `json:"description" required:"true"`
}

func (s *Service) test(ctx context.Context, who authz.Caller, in *serverIn) (testResult, error) {
	v, err := s.store.Get(ctx, who.TenantID, in.ServerID)
	if err != nil {
		return testResult{}, err
	}
	begun := time.Now()
	l, failed := s.probe(ctx, v)
	out := testResult{Tools: []summary{}, LatencyMS: float64(time.Since(begun).Microseconds()) / 1000, Error: v.Failure}
	if err := s.note(ctx, who, v); err != nil {
		return testResult{}, err
	}
	out.Status = v.status()
	if failed != nil {
		if errors.Is(failed, ErrUnauthorized) && v.authorizable() {
			out.AuthorizationURL = s.startURL(v.TenantID, v.ID)
		}
		return out, nil
	}
	out.OK, out.ToolCount = true, len(l.Tools)
	for _, t := range l.Tools {
		out.Tools = append(out.Tools, summary{Name: t.Name, Description: t.Description})
	}
	return out, nil
}

// note stores how a connection went, unless the server was changed or deleted
// meanwhile: then it says nothing about it any more.
func (s *Service) note(ctx context.Context, who authz.Caller, tried *Server) error {
	_, err := s.store.Update(ctx, who, tried.ID, func(_ txn.Tx, v *Server) error {
		if v.Version == tried.Version {
			v.Failure, v.LastSynced, v.Capabilities = tried.Failure, tried.LastSynced, tried.Capabilities
		}
		return nil
	})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// authorizable says whether people can authorize the server.
func (s *Server) authorizable() bool {
	return s.Transport != STDIO && s.Secret == "" && s.APIKeyRef == "" && (s.Auth.Type == authNone || s.Auth.Type == authOAuth)
}
