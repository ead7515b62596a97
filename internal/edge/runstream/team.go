package runstream

import (
	"context"
	"iter"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
)

// TeamPrefix precedes the id of a team in a model name. It stays in Request.AgentID.
const TeamPrefix = "team/"

// Teams runs teams in the place of agents; teamrun.Model.
type Teams interface {
	Create(ctx context.Context, who authz.Caller, teamID string, req run.Request) (*run.Run, error)
	// Get returns a run of a team. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, id string) (*run.Run, error)
	// Follow returns the final event of a run of a team, when it has ended.
	Follow(ctx context.Context, tenant, id string) iter.Seq2[event.Event, error]
}

// teamOf returns the id of the team that a model name names; "": it names none.
func (r *Runner) teamOf(model string) string {
	id, ok := strings.CutPrefix(model, TeamPrefix)
	if !ok || r.Teams == nil {
		return ""
	}
	return id
}

// teamID returns the model name of a team. Errors: fault.NotFound where it is no id.
func teamID(model, id string) (string, error) {
	if !ident.Valid(id) {
		return "", NoAgent(model)
	}
	return model, nil
}

// startTeam starts a run of a team.
func (r *Runner) startTeam(ctx context.Context, who authz.Caller, team string, req run.Request) (*Stream, error) {
	created, err := r.Teams.Create(ctx, who, team, req)
	if err != nil {
		return nil, err
	}
	return &Stream{Run: created, runner: r, tenant: who.TenantID, team: true}, nil
}

// replayed returns the stream of a run that an earlier request started, of an agent or
// of a team.
func (r *Runner) replayed(ctx context.Context, tenant, id string) (*Stream, error) {
	earlier, err := r.Runs.Get(ctx, tenant, id)
	if err == nil {
		return r.Replay(tenant, earlier), nil
	}
	if r.Teams == nil || !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	if earlier, err = r.Teams.Get(ctx, tenant, id); err != nil {
		return nil, err
	}
	return &Stream{Run: earlier, runner: r, tenant: tenant, team: true}, nil
}
