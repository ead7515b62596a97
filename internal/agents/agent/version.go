package agent

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// kept is how many of an agent's newest versions are kept.
const kept = 50

// What the versions that nobody named are called (behaviours.md section 1).
const (
	initial  = "Initial version"
	before   = "Auto-versioned before update"
	after    = "Auto-versioned after update"
	rollback = "Rollback to version %d"
	manual   = "Manual snapshot"
)

// version is a recorded configuration. Versions are documents of a kind of
// their own, without routes: a handful of lines where a table would ask for a
// port and two adapters, at the price of two more index entries per version.
type version struct {
	resource.Meta `json:"-"`

	AgentID   string        `json:"agent_id"`
	Number    int64         `json:"version"`
	Changelog string        `json:"changelog"`
	CreatedBy string        `json:"created_by"`
	Config    schema.Object `json:"config"`
}

var versionKind = resource.Kind[version]{
	Name: "agent_version",
	Indexes: []resource.Index[version]{
		{Name: "agent_id", Of: func(v *version) string { return v.AgentID }},
	},
	Unique: resource.Index[version]{Name: "number", Of: func(v *version) string { return versionKey(v.AgentID, v.Number) }},
}

func versionKey(agentID string, number int64) string {
	return agentID + "/" + strconv.FormatInt(number, 10)
}

// Version is a recorded configuration as clients see it.
type Version struct {
	_ struct{} `json:"-" name:"AgentVersion"`

	VersionID string        `json:"version_id" required:"true" format:"uuid"`
	AgentID   string        `json:"agent_id" required:"true" format:"uuid"`
	TenantID  string        `json:"tenant_id" required:"true"`
	Number    int64         `json:"version" required:"true" doc:"1 for the first, one more with every change of the configuration."`
	Changelog string        `json:"changelog" required:"true"`
	CreatedAt time.Time     `json:"created_at" required:"true"`
	CreatedBy string        `json:"created_by" required:"true" doc:"Whose key made it: a user id."`
	Config    schema.Object `json:"config,omitzero" doc:"The agent's configuration as it was. Left out of a summary."`
}

func (v *version) shown() Version {
	return Version{
		VersionID: v.ID, AgentID: v.AgentID, TenantID: v.TenantID, Number: v.Number,
		Changelog: v.Changelog, CreatedAt: v.CreatedAt, CreatedBy: v.CreatedBy, Config: v.Config,
	}
}

// before prepares a write of an agent: which version it will record, when its
// status changed.
func (a *Agents) before(e *resource.Edit[Agent]) error {
	switch e.Action {
	case resource.Created:
		e.New.VersionNo = "1"
	case resource.Updated:
		head, err := a.head(e)
		if err != nil {
			return err
		}
		e.New.VersionNo = strconv.FormatInt(head+1, 10)
	default:
		now := a.deps.Clock.Now()
		e.New.StatusChangedAt = &now
		if e.New.Status == Active {
			e.New.StatusReason, e.New.StatusReasonCode = "", ""
		}
	}
	return nil
}

// head gives the number of the version that records what the agent is before
// an update. Where the newest version says something else, it records it first.
func (a *Agents) head(e *resource.Edit[Agent]) (int64, error) {
	number, err := strconv.ParseInt(e.Old.VersionNo, 10, 64)
	if err != nil {
		return 0, err
	}
	newest, err := a.find(e.Tx, e.Old.TenantID, e.Old.ID, number)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return 0, err
	}
	if newest != nil {
		var recorded Config
		if err := json.Unmarshal(newest.Config, &recorded); err != nil {
			return 0, err
		}
		if same, err := equal(recorded, e.Old.Config); same || err != nil {
			return number, err
		}
	}
	return number + 1, a.record(e.Tx, e.Who, e.Old, number+1, before)
}

func equal(a, b Config) (bool, error) {
	one, err := json.Marshal(a)
	if err != nil {
		return false, err
	}
	two, err := json.Marshal(b)
	return bytes.Equal(one, two), err
}

// after records what a write of an agent did to its versions.
func (a *Agents) after(e *resource.Edit[Agent]) error {
	if e.Old != nil {
		tenant, id := e.Old.TenantID, e.Old.ID
		e.Tx.AfterCommit(func() { a.recent.Forget(tenant, id) })
	}
	if err := a.place(e); err != nil {
		return err
	}
	switch e.Action {
	case resource.Created:
		return a.record(e.Tx, e.Who, e.New, 1, initial)
	case resource.Updated:
		number, err := strconv.ParseInt(e.New.VersionNo, 10, 64)
		if err != nil {
			return err
		}
		return a.record(e.Tx, e.Who, e.New, number, cmp.Or(e.New.Changelog, after))
	case resource.Deleted:
		return a.forget(e.Tx, e.Who, e.Old)
	}
	return nil
}

// record writes a version, and removes the one that is too old now.
func (a *Agents) record(tx txn.Tx, who authz.Caller, g *Agent, number int64, changelog string) error {
	config, err := json.Marshal(g.Config)
	if err != nil {
		return err
	}
	err = a.versions.CreateTx(tx, who, &version{
		AgentID: g.ID, Number: number, Changelog: changelog, CreatedBy: who.UserID, Config: config,
	})
	if err != nil || number <= kept {
		return err
	}
	old, err := a.find(tx, g.TenantID, g.ID, number-kept)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return a.versions.DeleteTx(tx, who, old.ID)
}

// forget removes all versions of an agent.
func (a *Agents) forget(tx txn.Tx, who authz.Caller, g *Agent) error {
	all, err := a.versions.ListTx(tx, g.TenantID, resource.Find{Where: map[string]string{"agent_id": g.ID}, Limit: 2 * kept})
	for _, v := range all {
		if err == nil {
			err = a.versions.DeleteTx(tx, who, v.ID)
		}
	}
	return err
}

// find reads a version inside a transaction. Errors: fault.NotFound.
func (a *Agents) find(tx txn.Tx, tenant, id string, number int64) (*version, error) {
	return first(a.versions.ListTx(tx, tenant, resource.Find{Unique: versionKey(id, number), Limit: 1}))
}

func first(found []*version, err error) (*version, error) {
	if err == nil && len(found) == 0 {
		err = fault.NoSuch("version of an agent")
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// GetVersion reads a recorded configuration. Errors: fault.NotFound, also
// where the version is too old to be kept.
func (a *Agents) GetVersion(ctx context.Context, tenant, id string, number int64) (Version, error) {
	v, err := first(a.versions.List(ctx, tenant, resource.Find{Unique: versionKey(id, number), Limit: 1}))
	if err != nil {
		return Version{}, err
	}
	return v.shown(), nil
}

// Versions lists what is recorded of an agent, newest first: at most 50.
// Errors: fault.NotFound where there is no such agent.
func (a *Agents) Versions(ctx context.Context, tenant, id string) ([]Version, error) {
	if _, err := a.store.Read(ctx, tenant, id); err != nil {
		return nil, err
	}
	all, err := a.versions.List(ctx, tenant, resource.Find{Where: map[string]string{"agent_id": id}, Limit: 2 * kept})
	if err != nil {
		return nil, err
	}
	// By number and not by id: nodes whose clocks differ make ids that do not
	// sort as the versions were written.
	slices.SortFunc(all, func(x, y *version) int { return cmp.Compare(y.Number, x.Number) })
	shown := make([]Version, len(all))
	for i, v := range all {
		shown[i] = v.shown()
	}
	return shown, nil
}

// Snapshot records the configuration as it is now.
func (a *Agents) Snapshot(ctx context.Context, who authz.Caller, id, changelog string) (Version, error) {
	return a.recorded(ctx, who, id, func(_ txn.Tx, g *Agent) error {
		g.Changelog = cmp.Or(changelog, manual)
		return nil
	})
}

// Rollback makes the configuration what it was in a version, which becomes a
// new version.
func (a *Agents) Rollback(ctx context.Context, who authz.Caller, id string, number int64) (Version, error) {
	return a.recorded(ctx, who, id, func(tx txn.Tx, g *Agent) error {
		old, err := a.find(tx, who.TenantID, id, number)
		if err != nil {
			return err
		}
		g.Config = a.store.Blank().Config // for fields that are younger than the version
		g.Model = ModelConfig{}
		g.Changelog = fmt.Sprintf(rollback, number)
		return json.Unmarshal(old.Config, &g.Config)
	})
}

// recorded updates an agent and gives the version that records it.
func (a *Agents) recorded(ctx context.Context, who authz.Caller, id string, change func(txn.Tx, *Agent) error) (Version, error) {
	g, err := a.store.Update(ctx, who, id, change)
	if err != nil {
		return Version{}, err
	}
	number, err := strconv.ParseInt(g.VersionNo, 10, 64)
	if err != nil {
		return Version{}, err
	}
	return a.GetVersion(ctx, who.TenantID, id, number)
}
