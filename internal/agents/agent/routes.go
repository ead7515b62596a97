package agent

import (
	"context"
	"strconv"

	"agentd/internal/base/authz"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/resource"
)

// Routes lists the operations on agents and their versions.
func (a *Agents) Routes() []route.Route {
	row := func(method, path, id, summary string, scope authz.Scope, role authz.Role) route.Row {
		return route.Row{
			Method: method, Path: "/api/v1/agents/{agentId}" + path, ID: id, Tag: "Agents",
			Summary: summary, Scopes: []authz.Scope{scope}, Role: role,
		}
	}
	read := func(path, id, summary string) route.Row {
		return row("GET", path, id, summary, "agents:read", "")
	}
	write := func(path, id, summary string) route.Row {
		return row("POST", path, id, summary, "agents:write", authz.Developer)
	}
	snapshot := write("/versions", "createAgentVersion", "Record an agent's configuration as a version.")
	snapshot.Status, snapshot.Optional = 201, true
	rollback := write("/rollback", "rollbackAgent", "Go back to the configuration of a version, as a new version.")
	rollback.Errors = []int{409}
	plain := resource.Routes(a.store)
	for i := range plain {
		if plain[i].ID == "createAgent" {
			plain[i].Errors = append(plain[i].Errors, 404) // its workspace or knowledge base
		}
	}
	return append(plain,
		route.Action(read("/versions", "listAgentVersions", "List an agent's versions, newest first."), a.listVersions),
		route.Action(snapshot, a.createVersion),
		route.Action(read("/versions/{versionNum}/diff", "getAgentVersionDiff", "Compare two versions of an agent."), a.diffVersions),
		route.Action(rollback, a.rollbackTo),
	)
}

type versionsIn struct {
	AgentID string `path:"agentId"`
	Limit   string `query:"limit" doc:"Page size, up to 50. Left out: all versions at once, without paging."`
	Cursor  string `query:"cursor"`
	Fields  string `query:"fields" doc:"summary leaves the configurations out."`
}

// versionList has paging fields only where the caller asked for a page.
type versionList struct {
	_ struct{} `json:"-" name:"AgentVersionList"`

	Items    []Version `json:"items" required:"true"`
	Versions []Version `json:"versions" required:"true" deprecated:"true" doc:"The same as items, under its older name."`
	Total    int       `json:"total" required:"true" doc:"How many there are on all pages."`
	HasMore  *bool     `json:"has_more,omitzero"`
	Cursor   string    `json:"cursor,omitzero"`
}

func (a *Agents) listVersions(ctx context.Context, who authz.Caller, in *versionsIn) (versionList, error) {
	all, err := a.Versions(ctx, who.TenantID, in.AgentID)
	if err != nil {
		return versionList{}, err
	}
	list := versionList{Total: len(all), Items: all}
	if in.Limit != "" || in.Cursor != "" {
		scope := page.Scope{Tenant: who.TenantID, List: "agent_versions", Filter: []string{in.AgentID}}
		after, err := a.deps.Cursors.Open(scope, in.Cursor)
		if err != nil {
			return versionList{}, err
		}
		for len(list.Items) > 0 && after != "" && !olderThan(list.Items[0], after) {
			list.Items = list.Items[1:]
		}
		limit := page.Limit(in.Limit, kept, kept)
		more := len(list.Items) > limit
		list.HasMore = &more
		if more {
			list.Items = list.Items[:limit]
			list.Cursor = a.deps.Cursors.Seal(scope, strconv.FormatInt(list.Items[limit-1].Number, 10))
		}
	}
	if in.Fields == "summary" {
		for i := range list.Items {
			list.Items[i].Config = nil
		}
	}
	list.Versions = list.Items
	return list, nil
}

func olderThan(v Version, number string) bool {
	n, err := strconv.ParseInt(number, 10, 64)
	return err == nil && v.Number < n
}

type snapshotIn struct {
	AgentID string `path:"agentId"`
	Body    struct {
		_ struct{} `json:"-" name:"AgentVersionCreate"`

		Changelog string `json:"changelog" maxLength:"2000"`
	}
}

func (a *Agents) createVersion(ctx context.Context, who authz.Caller, in *snapshotIn) (Version, error) {
	return a.Snapshot(ctx, who, in.AgentID, in.Body.Changelog)
}

type rollbackIn struct {
	AgentID string `path:"agentId"`
	Body    struct {
		_ struct{} `json:"-" name:"AgentRollback"`

		Version int64 `json:"version" required:"true" minimum:"1"`
	}
}

func (a *Agents) rollbackTo(ctx context.Context, who authz.Caller, in *rollbackIn) (Version, error) {
	return a.Rollback(ctx, who, in.AgentID, in.Body.Version)
}

type diffIn struct {
	AgentID    string `path:"agentId"`
	VersionNum int    `path:"versionNum"`
	CompareTo  int    `query:"compare_to" doc:"The version to compare with. Left out: the one before."`
}

// versionDiff says which top-level fields of the configuration differ.
type versionDiff struct {
	_ struct{} `json:"-" name:"AgentVersionDiff"`

	AgentID       string               `json:"agent_id" required:"true" format:"uuid"`
	VersionFrom   int64                `json:"version_from" required:"true"`
	VersionTo     int64                `json:"version_to" required:"true"`
	Diff          map[string]fieldDiff `json:"diff" required:"true" doc:"The changed fields by name."`
	ChangedFields []string             `json:"changed_fields" required:"true"`
}

type fieldDiff struct {
	From schema.Any `json:"from" required:"true"`
	To   schema.Any `json:"to" required:"true"`
}

func (a *Agents) diffVersions(ctx context.Context, who authz.Caller, in *diffIn) (versionDiff, error) {
	if _, err := a.store.Read(ctx, who.TenantID, in.AgentID); err != nil {
		return versionDiff{}, err
	}
	to, err := a.GetVersion(ctx, who.TenantID, in.AgentID, int64(in.VersionNum))
	if err != nil {
		return versionDiff{}, err
	}
	base := int64(in.CompareTo)
	if base == 0 {
		base = to.Number - 1
	}
	from, err := a.GetVersion(ctx, who.TenantID, in.AgentID, base)
	if err != nil {
		return versionDiff{}, err
	}
	return diff(from, to)
}
