package notification

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // so that zones are known where the system has none

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

// Channel is a way to tell a person something.
type Channel = string

// The channels. What is told in the app is in the list and in the stream.
const (
	InApp   Channel = "in_app"
	Email   Channel = "email"
	Webhook Channel = "webhook"
)

var channels = []Channel{InApp, Email, Webhook}

// Prefs is how a person wants to be told (behaviours.md section 18). The zero
// Prefs is made whole by complete.
type Prefs struct {
	_ struct{} `json:"-" name:"NotificationPrefs"`

	Channels   PriorityChannels     `json:"priority_channels" doc:"By what ways one is told of notifications of each priority: in_app, email, webhook. in_app is always among them."`
	Overrides  map[string][]Channel `json:"type_overrides" doc:"The ways for some types, whatever their priority. A type that ends in .* stands for all that begin so."`
	Muted      []string             `json:"muted_types" doc:"Types of which one is told in the app only. The same holds for .* at the end." maxItems:"100"`
	QuietHours *QuietHours          `json:"quiet_hours" doc:"When nothing but what is critical is told outside of the app. It is told when they end, unless it was read meanwhile."`
}

// PriorityChannels are the ways for each priority. What is left out is in_app,
// and email for what is critical.
type PriorityChannels struct {
	_ struct{} `json:"-" name:"NotificationChannels"`

	Critical []Channel `json:"critical"`
	Warning  []Channel `json:"warning"`
	Info     []Channel `json:"info"`
	Success  []Channel `json:"success"`
}

// QuietHours are a part of the day, in a time zone.
type QuietHours struct {
	_ struct{} `json:"-" name:"NotificationQuietHours"`

	Start string `json:"start_local" required:"true" doc:"Wall time, as 22:00."`
	End   string `json:"end_local" required:"true" doc:"Wall time of the same day, or of the next one where it is before the start."`
	Zone  string `json:"timezone" required:"true" maxLength:"100" doc:"IANA time zone, as Europe/Berlin."`
}

const maxOverrides = 100

// DefaultPrefs are those of a person who set none.
func DefaultPrefs() Prefs {
	var p Prefs
	p.complete()
	return p
}

// complete fills what was left out, and puts in_app first everywhere: it
// cannot be switched off.
func (p *Prefs) complete() {
	if p.Channels.Critical == nil {
		p.Channels.Critical = []Channel{Email}
	}
	for _, list := range []*[]Channel{&p.Channels.Critical, &p.Channels.Warning, &p.Channels.Info, &p.Channels.Success} {
		*list = withInApp(*list)
	}
	if p.Overrides == nil {
		p.Overrides = map[string][]Channel{}
	}
	for kind, list := range p.Overrides {
		p.Overrides[kind] = withInApp(list)
	}
	if p.Muted == nil {
		p.Muted = []string{}
	}
}

func withInApp(list []Channel) []Channel {
	out := []Channel{InApp}
	for _, c := range channels[1:] {
		if slices.Contains(list, c) {
			out = append(out, c)
		}
	}
	return out
}

// check lists what is wrong.
func (p *Prefs) check() (wrong []fault.Field) {
	ways := func(path string, list []Channel) {
		for i, c := range list {
			if !slices.Contains(channels, c) {
				wrong = append(wrong, fault.Field{Field: fmt.Sprintf("%s[%d]", path, i), Message: "must be one of " + strings.Join(channels, ", ")})
			}
		}
	}
	ways("priority_channels.critical", p.Channels.Critical)
	ways("priority_channels.warning", p.Channels.Warning)
	ways("priority_channels.info", p.Channels.Info)
	ways("priority_channels.success", p.Channels.Success)
	if len(p.Overrides) > maxOverrides {
		wrong = append(wrong, fault.Field{Field: "type_overrides", Message: fmt.Sprintf("has more than %d types", maxOverrides)})
	}
	names := make([]string, 0, len(p.Overrides))
	for name := range p.Overrides {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !isType(name) {
			wrong = append(wrong, fault.Field{Field: "type_overrides", Message: "has a name that is no type of notifications: words with dots between them"})
			continue
		}
		ways("type_overrides."+name, p.Overrides[name])
	}
	for i, name := range p.Muted {
		if !isType(name) {
			wrong = append(wrong, fault.Field{Field: fmt.Sprintf("muted_types[%d]", i), Message: "is no type of notifications: words with dots between them"})
		}
	}
	return append(wrong, p.QuietHours.check()...)
}

// isType says whether a text can be a type: words with dots between them.
func isType(s string) bool {
	return s != "" && len(s) <= 200 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-*") == ""
}

func (q *QuietHours) check() (wrong []fault.Field) {
	if q == nil {
		return nil
	}
	for _, f := range []struct{ name, value string }{{"start_local", q.Start}, {"end_local", q.End}} {
		if _, err := time.Parse("15:04", f.value); err != nil || len(f.value) != 5 {
			wrong = append(wrong, fault.Field{Field: "quiet_hours." + f.name, Message: "must be a wall time such as 22:00"})
		}
	}
	if wrong == nil && q.Start == q.End {
		wrong = append(wrong, fault.Field{Field: "quiet_hours.end_local", Message: "must be another time than the start; null means no quiet hours"})
	}
	if zone, err := time.LoadLocation(q.Zone); err != nil || q.Zone == "" || zone == time.Local {
		wrong = append(wrong, fault.Field{Field: "quiet_hours.timezone", Message: "must be an IANA time zone such as Europe/Berlin"})
	}
	return wrong
}

// until is when the quiet hours of a moment end; zero where it is not in them.
func (q *QuietHours) until(now time.Time) time.Time {
	if q == nil {
		return time.Time{}
	}
	zone, err := time.LoadLocation(q.Zone)
	if err != nil {
		return time.Time{}
	}
	local := now.In(zone)
	clock := local.Format("15:04")
	inside, days := clock >= q.Start && clock < q.End, 0
	if q.Start > q.End { // over midnight
		inside = clock >= q.Start || clock < q.End
		if clock >= q.Start {
			days = 1
		}
	}
	end, err := time.Parse("15:04", q.End)
	if !inside || err != nil {
		return time.Time{}
	}
	at := time.Date(local.Year(), local.Month(), local.Day()+days, end.Hour(), end.Minute(), 0, 0, zone)
	if !at.After(now) { // a wall time that comes twice
		at = now.Add(time.Minute)
	}
	return at.UTC()
}

// ways are the channels by which a person hears of a notification, outside of
// the app, and from when on.
func (p *Prefs) ways(n *Notification, now time.Time) (list []Channel, due time.Time) {
	if slices.ContainsFunc(p.Muted, func(pattern string) bool { return covers(pattern, n.Type) }) {
		return nil, now
	}
	switch n.Priority {
	case Critical:
		list = p.Channels.Critical
	case Warning:
		list = p.Channels.Warning
	case Success:
		list = p.Channels.Success
	default:
		list = p.Channels.Info
	}
	best := ""
	for pattern, override := range p.Overrides {
		if covers(pattern, n.Type) && len(pattern) > len(best) { // the most exact one
			best, list = pattern, override
		}
	}
	if n.Priority != Critical {
		if end := p.QuietHours.until(now); !end.IsZero() {
			now = end
		}
	}
	return list[1:], now // without in_app
}

// covers says whether a type is one of those that a pattern means.
func covers(pattern, kind string) bool {
	if begin, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(kind, begin)
	}
	return pattern == kind
}

func (s *Service) prefs(ctx context.Context, who authz.Caller, _ *nothing) (Prefs, error) {
	p, err := s.Delivery.GetPrefs(ctx, who.TenantID, who.UserID)
	if err == nil && p == nil {
		d := DefaultPrefs()
		p = &d
	}
	if err != nil {
		return Prefs{}, err
	}
	return *p, nil
}

type prefsIn struct{ Body Prefs }

func (s *Service) setPrefs(ctx context.Context, who authz.Caller, in *prefsIn) (Prefs, error) {
	p := in.Body
	if wrong := p.check(); wrong != nil {
		return Prefs{}, fault.BadFields(wrong...)
	}
	p.complete()
	return answer(ctx, s.Writer, func(tx txn.Tx) (Prefs, error) {
		tx.AfterCommit(func() { s.reach.forget(who.TenantID) })
		return p, s.Delivery.PutPrefsTx(tx, who.TenantID, who.UserID, p, s.Clock.Now())
	})
}
