package artifact

import (
	"context"

	"agentd/internal/base/authz"
	"agentd/internal/base/media"
	"agentd/internal/base/route"
	"agentd/internal/execution/run"
)

type (
	runIn struct {
		RunID string `path:"runId"`
	}
	idIn struct {
		ArtifactID string `path:"artifactId"`
	}
)

// Routes returns the operations on artifacts. Whoever may read a run sees its
// artifacts there, so the list of them also accepts the scope runs:read.
func (s *Service) Routes() []route.Route {
	read := func(path, id, summary string, scopes ...authz.Scope) route.Row {
		return route.Row{
			Method: "GET", Path: "/api/v1" + path, ID: id, Tag: "Artifacts", Scopes: scopes, Role: authz.Viewer, Summary: summary,
		}
	}
	content := read("/artifacts/{artifactId}/content", "downloadArtifact", "Download an artifact", "files:read")
	content.Reads = "artifact.downloaded"
	content.Doc = "Supports ranges and conditional requests. The key may be sent as ?token=."
	return []route.Route{
		route.Action(
			read("/runs/{runId}/artifacts", "listRunArtifacts", "List a run's artifacts, oldest first", "files:read", "runs:read"), s.list,
		),
		route.Action(read("/artifacts/{artifactId}", "getArtifact", "Get an artifact's metadata", "files:read"), s.get),
		route.Action(content, s.content),
	}
}

func (s *Service) get(ctx context.Context, who authz.Caller, in *idIn) (*run.Artifact, error) {
	r, err := s.Get(ctx, who.TenantID, in.ArtifactID)
	if err != nil {
		return nil, err
	}
	return &r.Artifact, nil
}

func (s *Service) list(ctx context.Context, who authz.Caller, in *runIn) (*List, error) {
	if err := s.Exists(ctx, who.TenantID, in.RunID); err != nil {
		return nil, err
	}
	all, err := s.Of(ctx, who.TenantID, in.RunID)
	return &List{RunID: in.RunID, Artifacts: all, Total: len(all)}, err
}

func (s *Service) content(ctx context.Context, who authz.Caller, in *idIn) (*route.Content, error) {
	r, content, err := s.Open(ctx, who.TenantID, in.ArtifactID)
	if err != nil {
		return nil, err
	}
	return &route.Content{
		Name: r.Name, Type: r.MimeType, Inline: media.Inline(r.MimeType), ETag: r.SHA256, Time: r.CreatedAt, Size: r.SizeBytes, Body: content,
	}, nil
}
