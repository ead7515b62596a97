package schedule

import (
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
)

// Routes lists the operations on schedules.
func (s *Service) Routes() []route.Route {
	const own = "/api/v1/agents/{agentId}/schedule"
	read, write := []authz.Scope{"agents:read"}, []authz.Scope{"agents:write"}
	return []route.Route{
		route.Action(route.Row{
			Method: "GET", Path: own, ID: "getSchedule", Tag: "Scheduler", Scopes: read, Role: authz.Viewer,
			Summary: "Get an agent's schedule", Errors: []int{404}, Nullable: true, Conditional: true,
			Doc: "null where the agent has no schedule.",
		}, s.get),
		route.Action(route.Row{
			Method: "PUT", Path: own, ID: "setSchedule", Tag: "Scheduler", Scopes: write, Role: authz.Developer,
			Summary: "Set an agent's schedule", Errors: []int{404, 409}, Conditional: true,
			Doc: "Replaces the whole schedule and resumes one that is paused. The agent's field schedule has the same content.",
		}, s.set),
		route.Action(route.Row{
			Method: "DELETE", Path: own, ID: "removeSchedule", Tag: "Scheduler", Scopes: write, Role: authz.Developer,
			Summary: "Remove an agent's schedule", Errors: []int{404, 409}, Conditional: true,
			Doc: "Succeeds also if there is no schedule. Runs that it started continue.",
		}, s.remove),
		route.Action(route.Row{
			Method: "GET", Path: "/api/v1/schedules", ID: "listSchedules", Tag: "Scheduler", Scopes: read, Role: authz.Viewer,
			Summary: "List the schedules of all agents", Errors: []int{422},
		}, s.list),
	}
}

type agentIn struct {
	AgentID string `path:"agentId"`
}

type setIn struct {
	AgentID string `path:"agentId"`
	Body    Config
}

type removed struct {
	_ struct{} `json:"-" name:"ScheduleRemoved"`

	Removed bool   `json:"removed" required:"true"`
	AgentID string `json:"agent_id" format:"uuid" required:"true"`
}

func (s *Service) get(ctx context.Context, who authz.Caller, in *agentIn) (*Schedule, error) {
	return s.Get(ctx, who.TenantID, in.AgentID)
}

func (s *Service) set(ctx context.Context, who authz.Caller, in *setIn) (*Schedule, error) {
	return s.Set(ctx, who, in.AgentID, &in.Body)
}

func (s *Service) remove(ctx context.Context, who authz.Caller, in *agentIn) (removed, error) {
	return removed{Removed: true, AgentID: in.AgentID}, s.Remove(ctx, who, in.AgentID)
}

type listIn struct {
	Limit  string `query:"limit" doc:"Schedules per page, 1 to 500; all of them if omitted."`
	Cursor string `query:"cursor"`
}

// maxPage is the maximum of schedules on a page, and how many are read at a
// time.
const maxPage = 500

// Page is a list of schedules. Paging fields appear only if the request has a
// limit or a cursor.
type Page struct {
	_ struct{} `json:"-" name:"ScheduleList"`

	Schedules []Entry `json:"schedules" required:"true"`
	Total     int     `json:"total" required:"true" doc:"Schedules on all pages."`
	HasMore   *bool   `json:"has_more,omitzero"`
	Cursor    *string `json:"cursor,omitzero"`
}

// Entry is a schedule in a list.
type Entry struct {
	_ struct{} `json:"-" name:"ScheduleEntry"`

	AgentID     string     `json:"agent_id" format:"uuid" required:"true"`
	AgentName   string     `json:"agent_name" required:"true"`
	Cron        string     `json:"cron" required:"true"`
	Timezone    string     `json:"timezone" required:"true"`
	Enabled     bool       `json:"enabled" required:"true"`
	Status      Status     `json:"status" enum:"active,paused,error" required:"true"`
	NextRunAt   *time.Time `json:"next_run_at" required:"true"`
	NextFireAt  *time.Time `json:"next_fire_at,omitzero" deprecated:"true" doc:"The same as next_run_at, under its older name."`
	LastFiredAt *time.Time `json:"last_fired_at" required:"true"`
}

func (s *Service) list(ctx context.Context, who authz.Caller, in *listIn) (*Page, error) {
	scope := page.ScopeOf(who.TenantID, "schedules", in)
	after, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	p := &Page{Schedules: []Entry{}}
	if p.Total, err = s.Store.Count(ctx, who.TenantID); err != nil {
		return nil, err
	}
	limit, paged := maxPage, in.Limit != "" || in.Cursor != ""
	if paged {
		limit = page.Limit(in.Limit, maxPage, maxPage)
	}
	for {
		states, err := s.Store.List(ctx, who.TenantID, after, limit+1)
		if err != nil {
			return nil, err
		}
		more := len(states) > limit
		for i := range states[:min(limit, len(states))] {
			if err := s.add(ctx, p, &states[i]); err != nil {
				return nil, err
			}
		}
		if more {
			after = states[limit-1].AgentID
		}
		switch {
		case paged:
			p.HasMore = &more
			if more {
				next := s.Cursors.Seal(scope, after)
				p.Cursor = &next
			}
			return p, nil
		case !more:
			return p, nil
		}
	}
}

// add appends an agent's current schedule to a page.
func (s *Service) add(ctx context.Context, p *Page, st *State) error {
	g, err := s.Agents.Get(ctx, st.TenantID, st.AgentID)
	if fault.Is(err, fault.NotFound) {
		return nil // it was deleted a moment ago
	}
	if err != nil {
		return err
	}
	set, err := setupOf(g)
	if err != nil || !set.exists() {
		return err
	}
	one := s.shown(set, st)
	p.Schedules = append(p.Schedules, Entry{
		AgentID: g.ID, AgentName: g.Name, Cron: one.Cron, Timezone: one.Timezone, Enabled: one.Enabled, Status: one.Status,
		NextRunAt: one.NextRunAt, NextFireAt: one.NextRunAt, LastFiredAt: one.LastFiredAt,
	})
	return nil
}
