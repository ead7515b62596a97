package mcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

// Codes of errors of adapters.
const (
	codeDenied     = "EGRESS_DENIED"
	CodeUnresolved = "HOST_UNKNOWN" // the host name does not resolve
)

// probe connects to a server again and sets the outcome on it.
func (s *Servers) probe(ctx context.Context, v *Server) (*Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	l, err := s.connect(ctx, v)
	if err != nil {
		v.Failure, v.NeedsAuth = s.connectError(v, err), errors.Is(err, ErrUnauthorized) && v.authorizable()
		return nil, err
	}
	now := s.clock.Now()
	v.Failure, v.NeedsAuth, v.LastSynced, v.Capabilities = "", false, &now, l.Capabilities
	return l, nil
}

func (s *Servers) connect(ctx context.Context, v *Server) (*Listing, error) {
	t, err := s.targets.of(v)
	if err != nil {
		return nil, err
	}
	return s.remote.Probe(ctx, t)
}

// connectError returns the sentence that tells people why a server cannot be used.
func (s *Servers) connectError(v *Server, err error) string {
	if errors.Is(err, ErrUnauthorized) {
		if v.Secret != "" || v.APIKeyRef != "" || v.Transport == STDIO {
			return "The server rejects the stored credential."
		}
		return "A person must authorize the server first: POST " + collection + "/" + v.ID + "/authorize returns the link."
	}
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind != fault.Internal {
		return e.Detail
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("The server did not answer within %v.", connectTimeout)
	}
	s.logger.Warn("an MCP server cannot be used", "tenant", v.TenantID, "server", v.ID, "err", err)
	return "The server cannot be used."
}

// testResult is the outcome of a test, which is 200 also where the test failed.
type testResult struct {
	_ struct{} `json:"-" name:"McpServerTest"`

	OK               bool      `json:"ok" required:"true"`
	Status           string    `json:"status" required:"true" enum:"active,error,auth_required,disabled"`
	ToolCount        int       `json:"tool_count" required:"true"`
	Tools            []summary `json:"tools" required:"true"`
	Error            string    `json:"error,omitzero" doc:"Why ok is false."`
	AuthorizationURL string    `json:"authorization_url,omitzero" format:"uri" doc:"Where a person authorizes the server, if it demands that."`
	LatencyMS        float64   `json:"latency_ms" required:"true"`
}

type summary struct {
	_ struct{} `json:"-" name:"McpToolSummary"`

	Name        string `json:"name" required:"true"`
	Description string `json:"description" required:"true"`
}

// authorize returns a link on which a person authorizes the server.
func (s *Servers) authorize(ctx context.Context, who authz.Caller, in *serverIn) (authorization, error) {
	v, err := s.store.Get(ctx, who.TenantID, in.ServerID)
	if err != nil {
		return authorization{}, err
	}
	if !v.authorizable() {
		return authorization{}, fault.New(fault.Conflict, "",
			"People cannot authorize this server: it is a stdio server, or a secret is stored for it.")
	}
	return authorization{AuthorizationURL: s.links.startURL(who.TenantID, v.ID, who.UserID), ExpiresAt: s.clock.Now().Add(startLinkLife)}, nil
}

type authorization struct {
	_ struct{} `json:"-" name:"McpAuthorization"`

	AuthorizationURL string    `json:"authorization_url" required:"true" format:"uri" doc:"For a browser in which a member of the company is signed in who may change MCP servers."`
	ExpiresAt        time.Time `json:"expires_at" required:"true"`
}

func (s *Servers) test(ctx context.Context, who authz.Caller, in *serverIn) (testResult, error) {
	v, err := s.store.Get(ctx, who.TenantID, in.ServerID)
	if err != nil {
		return testResult{}, err
	}
	start := time.Now()
	l, failed := s.probe(ctx, v)
	out := testResult{Tools: []summary{}, LatencyMS: float64(time.Since(start).Microseconds()) / 1000, Error: v.Failure}
	if err := s.recordProbe(ctx, who, v); err != nil {
		return testResult{}, err
	}
	out.Status = v.status()
	if failed != nil {
		if errors.Is(failed, ErrUnauthorized) && v.authorizable() {
			out.AuthorizationURL = s.links.startURL(v.TenantID, v.ID, who.UserID)
		}
		return out, nil
	}
	out.OK, out.ToolCount = true, len(l.Tools)
	for _, t := range l.Tools {
		out.Tools = append(out.Tools, summary{Name: t.Name, Description: t.Description})
	}
	return out, nil
}

// recordProbe stores the outcome of a connection, unless the server was changed or
// deleted meanwhile.
func (s *Servers) recordProbe(ctx context.Context, who authz.Caller, probed *Server) error {
	_, err := s.store.Update(ctx, who, probed.ID, func(_ txn.Tx, v *Server) error {
		if v.Version == probed.Version {
			v.Failure, v.NeedsAuth = probed.Failure, probed.NeedsAuth
			v.LastSynced, v.Capabilities = probed.LastSynced, probed.Capabilities
		}
		return nil
	})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// authorizable reports whether people can authorize the server.
func (s *Server) authorizable() bool {
	return s.Transport != STDIO && s.Secret == "" && s.APIKeyRef == "" && (s.Auth.Type == authNone || s.Auth.Type == authOAuth)
}
