package opconfig

import (
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

// ClientConfig is what clients adapt to.
type ClientConfig struct {
	_ struct{} `json:"-" name:"ClientConfig"`

	Features  map[string]bool           `json:"features" required:"true" doc:"Parts of the service by name, and whether they are on: those of feature-flags, signup, and commands in workspaces as run_command."`
	Providers map[string]ClientProvider `json:"providers" required:"true" doc:"Providers of models that the operator serves, by id."`
	Limits    ClientLimits              `json:"limits" required:"true"`
	Bridge    ClientBridge              `json:"bridge" required:"true"`
}

// ClientProvider is a provider of models.
type ClientProvider struct {
	_ struct{} `json:"-" name:"ClientConfigProvider"`

	Name   string `json:"name" required:"true"`
	HasKey bool   `json:"has_key" required:"true" doc:"Its models can be called without a key of one's own, or it needs none."`
}

// ClientLimits is what requests may be.
type ClientLimits struct {
	_ struct{} `json:"-" name:"ClientConfigLimits"`

	MaxBody     int64 `json:"max_body_bytes" required:"true" doc:"Of a JSON body."`
	MaxUpload   int64 `json:"max_upload_bytes" required:"true" doc:"Of a file."`
	Heartbeat   int64 `json:"stream_heartbeat_seconds" required:"true" doc:"Silence of an event stream after which it sends a comment."`
	Idempotency int64 `json:"idempotency_window_hours" required:"true" doc:"How long a repeated write is recognised."`
}

// ClientBridge is what machines keep to.
type ClientBridge struct {
	_ struct{} `json:"-" name:"ClientConfigBridge"`

	Heartbeat int64 `json:"heartbeat_seconds" required:"true" doc:"How often a machine reports that it is there."`
}

// maxUpload is how long an uploaded file may be unless the operator says less.
const maxUpload = 50 << 20

func (c *Config) clientConfig(context.Context, authz.Caller, *struct{}) (*ClientConfig, error) {
	out := &ClientConfig{
		Features: map[string]bool{"signup": c.Signup(), "run_command": c.commands.Get().Enabled},
		Limits: ClientLimits{
			MaxBody: c.MaxBody(), MaxUpload: maxUpload, Heartbeat: c.sse.Get().Heartbeat, Idempotency: c.idem.Get().WindowHours,
		},
		Bridge: ClientBridge{Heartbeat: int64(c.Deps.BridgeHeartbeat / time.Second)}, Providers: c.Deps.Providers(),
	}
	for _, f := range c.flags(c.features.Get()).Flags {
		out.Features[f.Name] = f.Enabled
	}
	if most := c.security.Get().MaxUpload; most > 0 {
		out.Limits.MaxUpload = most
	}
	return out, nil
}

func (c *Config) clientRoutes() []route.Route {
	return []route.Route{route.Action(route.Row{
		Method: "GET", Path: "/api/v1/client-config", ID: "getClientConfig", Tag: "Meta", Role: authz.Viewer,
		Summary: "Get what clients adapt to", Doc: "What is on, which providers of models there are, and what requests may be, at this moment.",
	}, c.clientConfig)}
}
