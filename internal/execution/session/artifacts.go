package session

import (
	"context"

	"agentd/internal/base/authz"
	"agentd/internal/execution/run"
)

// Artifacts is the port to the files that runs create.
type Artifacts interface {
	OfRuns(ctx context.Context, tenant string, runIDs []string) ([]run.Artifact, error)
}

type artifactList struct {
	_ struct{} `json:"-" name:"SessionArtifactList"`

	Artifacts []run.Artifact `json:"artifacts" required:"true"`
	SessionID string         `json:"session_id" required:"true"`
	Total     int            `json:"total" required:"true"`
	Truncated bool           `json:"truncated" required:"true" doc:"Whether the session has more runs than were searched."`
}

// maxScannedRuns is how many runs, the newest, are searched for artifacts.
const maxScannedRuns = 50_000

func (s *shareService) listArtifacts(ctx context.Context, who authz.Caller, in *idIn) (artifactList, error) {
	out := artifactList{Artifacts: []run.Artifact{}, SessionID: in.SessionID}
	rec, err := s.sessions.Get(ctx, who.TenantID, in.SessionID)
	if err != nil {
		return out, err
	}
	g, err := s.reader.graph(ctx, rec)
	if err != nil {
		return out, err
	}
	turns := g.turns
	if over := len(turns) - maxScannedRuns; over > 0 {
		turns, out.Truncated = turns[over:], true
	}
	found, err := s.artifactsOf(ctx, who.TenantID, turns)
	if found != nil {
		out.Artifacts = found
	}
	out.Total = len(out.Artifacts)
	return out, err
}

// artifactsOf returns the files of the runs of some turns.
func (s *shareService) artifactsOf(ctx context.Context, tenant string, turns []Turn) ([]run.Artifact, error) {
	if s.artifacts == nil || len(turns) == 0 {
		return nil, nil
	}
	ids := make([]string, len(turns))
	for i, t := range turns {
		ids[i] = t.RunID
	}
	return s.artifacts.OfRuns(ctx, tenant, ids)
}
