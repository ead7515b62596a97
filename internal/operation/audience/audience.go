// Package audience counts visits, sign-ups and sign-ins of a deployment for its operator.
// Visits are the events that pages count by name; the others are read from the audit logs.
package audience

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/route"
	"agentd/internal/operation/setting"
)

// Type is the kind of an arrival.
type Type string

// The types of arrivals, each of which is kept.
const (
	Signup Type = "signup"
	Login  Type = "login"
)

// Arrival is a sign-up or a sign-in.
type Arrival struct {
	_ struct{} `json:"-" name:"AdminAnalyticsEvent"`

	EventID  string    `json:"event_id" format:"uuid" required:"true" doc:"Entry of the company's audit log."`
	At       time.Time `json:"ts" required:"true"`
	Type     Type      `json:"type" enum:"signup,login" required:"true" doc:"signup: a person created a company; login: a member signed in."`
	TenantID string    `json:"tenant_id" required:"true"`
	UserID   string    `json:"visitor_id" required:"true" doc:"The member; empty: none is known."`
}

// Count is how often something happened on a day.
type Count struct {
	Day    string // 2026-09-10, UTC
	Name   string
	Number int64
}

// maxCounted bounds the arrivals of a type that are counted.
const maxCounted = 500_000

// Store is the port to the arrivals of all companies.
type Store interface {
	// CountArrivals counts the newest arrivals of a type by day, at most limit of them.
	CountArrivals(ctx context.Context, t Type, from, to time.Time, limit int) ([]Count, error)
	// ListArrivals returns the newest arrivals of a type since a time.
	ListArrivals(ctx context.Context, t Type, since time.Time, limit int) ([]Arrival, error)
}

// Service serves the figures.
type Service struct {
	Store Store
	Clock clock.Clock
	// Visits returns what pages counted since a day.
	Visits func(ctx context.Context, since string) ([]Count, error)
}

const dayForm = "2006-01-02"

type span struct {
	_ struct{} `json:"-" name:"AdminAnalyticsRange"`

	From string `json:"from" format:"date" required:"true" doc:"The first day, UTC."`
	To   string `json:"to" format:"date" required:"true" doc:"The last day, UTC."`
	Days int    `json:"days" required:"true"`
}

// Figures are how often each thing happened.
type Figures struct {
	_ struct{} `json:"-" name:"AdminAnalyticsTotals"`

	Landing int64 `json:"landing_visit" required:"true" doc:"Events landing_visit that pages sent to POST /public/track."`
	Pages   int64 `json:"page_view" required:"true" doc:"Events page_view, as landing_visit."`
	Signups int64 `json:"signup" required:"true" doc:"Companies that people made for themselves, without those that are deleted since."`
	Logins  int64 `json:"login" required:"true" doc:"Sign-ins of members."`
	Opens   int64 `json:"app_open" required:"true" doc:"Events app_open, as landing_visit."`
}

type dayFigures struct {
	_ struct{} `json:"-" name:"AdminAnalyticsDay"`

	Date string `json:"date" format:"date" required:"true" doc:"The day, UTC."`
	Figures
}

// add adds to the number of a name; others are left out.
func (f *Figures) add(name string, n int64) {
	switch name {
	case "landing_visit":
		f.Landing += n
	case "page_view":
		f.Pages += n
	case "app_open":
		f.Opens += n
	case string(Signup):
		f.Signups += n
	case string(Login):
		f.Logins += n
	}
}

// Overview answers GET /admin/analytics/overview.
type Overview struct {
	_ struct{} `json:"-" name:"AdminAnalyticsOverview"`

	Range      span         `json:"range" required:"true"`
	Totals     Figures      `json:"totals" required:"true"`
	Signups    int64        `json:"signups_30d" required:"true" doc:"Sign-ups of the last 30 days, whatever the range."`
	Conversion *float64     `json:"conversion_rate" required:"true" doc:"Sign-ups for each landing_visit of the range. Null: there was no such visit."`
	Days       []dayFigures `json:"timeseries" required:"true" doc:"Every day of the range, the oldest first."`
	Truncated  bool         `json:"truncated" required:"true" doc:"Whether there were more sign-ups or sign-ins than are counted: the newest 500000 of each."`
}

type overviewIn struct {
	Days int `query:"days" minimum:"1" maximum:"90" default:"30" doc:"Number of days, including today."`
}

func (s *Service) overview(ctx context.Context, _ authz.Caller, in *overviewIn) (Overview, error) {
	today := s.Clock.Now().UTC().Truncate(24 * time.Hour)
	first, month := today.AddDate(0, 0, 1-in.Days), today.AddDate(0, 0, -29)
	earliest := first
	if month.Before(first) {
		earliest = month
	}
	out := Overview{Range: span{From: first.Format(dayForm), To: today.Format(dayForm), Days: in.Days}}
	at := make(map[string]int, in.Days)
	for day := first; !day.After(today); day = day.AddDate(0, 0, 1) {
		at[day.Format(dayForm)] = len(out.Days)
		out.Days = append(out.Days, dayFigures{Date: day.Format(dayForm)})
	}
	count := func(all []Count) (sum int64) {
		for _, c := range all {
			if i, ok := at[c.Day]; ok {
				out.Days[i].add(c.Name, c.Number)
				out.Totals.add(c.Name, c.Number)
			}
			if c.Name == string(Signup) && c.Day >= month.Format(dayForm) {
				out.Signups += c.Number
			}
			sum += c.Number
		}
		return sum
	}
	visits, err := s.Visits(ctx, first.Format(dayForm))
	if err != nil {
		return out, err
	}
	count(visits)
	for t, from := range map[Type]time.Time{Signup: earliest, Login: first} {
		all, err := s.Store.CountArrivals(ctx, t, from, today.AddDate(0, 0, 1), maxCounted)
		if err != nil {
			return out, err
		}
		out.Truncated = count(all) >= maxCounted || out.Truncated
	}
	if out.Totals.Landing > 0 {
		rate := float64(out.Totals.Signups) / float64(out.Totals.Landing)
		out.Conversion = &rate
	}
	return out, nil
}

// Arrivals answers GET /admin/analytics/events.
type Arrivals struct {
	_ struct{} `json:"-" name:"AdminAnalyticsEvents"`

	Items []Arrival `json:"items" required:"true" doc:"The newest first."`
	Count int       `json:"count" required:"true" doc:"Number of items."`
}

type eventsIn struct {
	Days  int    `query:"days" minimum:"1" maximum:"30" default:"7" doc:"Number of days, including today."`
	Limit int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"Number of events."`
	Type  string `query:"type" maxLength:"100" doc:"Only events of this type: signup or login. There are none of other types: visits of pages are counted, and not kept singly."`
}

func (s *Service) events(ctx context.Context, _ authz.Caller, in *eventsIn) (Arrivals, error) {
	since := s.Clock.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-in.Days)
	out := Arrivals{Items: []Arrival{}}
	for _, t := range []Type{Signup, Login} {
		if in.Type != "" && in.Type != string(t) {
			continue
		}
		some, err := s.Store.ListArrivals(ctx, t, since, in.Limit)
		if err != nil {
			return out, err
		}
		out.Items = append(out.Items, some...)
	}
	slices.SortFunc(out.Items, func(a, b Arrival) int {
		return cmp.Or(b.At.Compare(a.At), strings.Compare(b.EventID, a.EventID))
	})
	out.Items = out.Items[:min(len(out.Items), in.Limit)]
	out.Count = len(out.Items)
	return out, nil
}

// Routes returns the operations.
func (s *Service) Routes() []route.Route {
	return []route.Route{
		route.Action(setting.Operation("GET", "/analytics/overview", "getPlatformAnalyticsOverview", "Get visits, sign-ups and sign-ins by day",
			"Visits of pages, sign-ups and sign-ins of all companies by day. Countries, devices, browsers and referrers of visitors are not kept."),
			s.overview),
		route.Action(setting.Operation("GET", "/analytics/events", "listPlatformAnalyticsEvents", "List sign-ups and sign-ins",
			"The newest of all companies."), s.events),
	}
}
