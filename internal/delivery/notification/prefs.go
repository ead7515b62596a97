package notification

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // time zones, for systems without a database of them

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

// Channel is a way to notify a person.
type Channel = string

// The channels. InApp means the list and the stream of notifications.
const (
	InApp   Channel = "in_app"
	Email   Channel = "email"
	Webhook Channel = "webhook"
)

var channels = []Channel{InApp, Email, Webhook}

// Prefs are the notification preferences of a person. complete sets the defaults
// of a zero Prefs.
type Prefs struct {
	_ struct{} `json:"-" name:"NotificationPrefs"`

	Channels   PriorityChannels     `json:"priority_channels" doc:"Channels by priority: in_app, email, webhook. in_app is always on."`
	Overrides  map[string][]Channel `json:"type_overrides" doc:"Channels for some types, whatever their priority. A type that ends in .* matches all types with that prefix."`
	Muted      []string             `json:"muted_types" doc:"Types that are sent to in_app only. A type may end in .* too." maxItems:"100"`
	QuietHours *QuietHours          `json:"quiet_hours" doc:"When only critical notifications are sent outside of the app. Others are sent when the quiet hours end, unless read meanwhile."`
}

// PriorityChannels are the channels of each priority. The default is in_app, and
// also email for critical ones.
type PriorityChannels struct {
	_ struct{} `json:"-" name:"NotificationChannels"`

	Critical []Channel `json:"critical" doc:"Channels of critical notifications."`
	Warning  []Channel `json:"warning" doc:"Channels of warnings."`
	Info     []Channel `json:"info" doc:"Channels of plain information."`
	Success  []Channel `json:"success" doc:"Channels of notifications that something succeeded."`
}

// QuietHours are a part of the day in a time zone.
type QuietHours struct {
	_ struct{} `json:"-" name:"NotificationQuietHours"`

	Start string `json:"start_local" required:"true" doc:"Wall time such as 22:00."`
	End   string `json:"end_local" required:"true" doc:"Wall time on the same day, or on the next day if before the start."`
	Zone  string `json:"timezone" required:"true" maxLength:"100" doc:"IANA time zone such as Europe/Berlin."`
}

const maxOverrides = 100

// DefaultPrefs returns the preferences of a person who has set none.
func DefaultPrefs() Prefs {
	var p Prefs
	p.complete()
	return p
}

// complete sets the defaults, and puts in_app first everywhere: it cannot be
// switched off.
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

// check returns what is invalid.
func (p *Prefs) check() (invalid []fault.Field) {
	checkChannels := func(object, name string, list []Channel) {
		for i, c := range list {
			if !slices.Contains(channels, c) {
				pointer := fmt.Sprintf("/%s/%s/%d", object, name, i) // types have dots in their names
				invalid = append(invalid, fault.Field{
					Field: fmt.Sprintf("%s.%s[%d]", object, name, i), Message: "must be one of " + strings.Join(channels, ", "),
					Pointer: &pointer, Code: fault.CodeEnum, Params: map[string]any{"allowed": channels},
				})
			}
		}
	}
	checkChannels("priority_channels", "critical", p.Channels.Critical)
	checkChannels("priority_channels", "warning", p.Channels.Warning)
	checkChannels("priority_channels", "info", p.Channels.Info)
	checkChannels("priority_channels", "success", p.Channels.Success)
	if len(p.Overrides) > maxOverrides {
		invalid = append(invalid, fault.Field{Field: "type_overrides", Message: fmt.Sprintf("has more than %d types", maxOverrides)})
	}
	names := make([]string, 0, len(p.Overrides))
	for name := range p.Overrides {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !isType(name) {
			invalid = append(invalid, fault.Field{Field: "type_overrides", Message: "has an invalid notification type: use words separated by dots"})
			continue
		}
		checkChannels("type_overrides", name, p.Overrides[name])
	}
	for i, name := range p.Muted {
		if !isType(name) {
			invalid = append(invalid, fault.Field{Field: fmt.Sprintf("muted_types[%d]", i), Message: notATypeMessage})
		}
	}
	return append(invalid, p.QuietHours.check()...)
}

// notATypeMessage explains an invalid entry of muted_types.
const notATypeMessage = "is not a notification type: use words separated by dots"

// isType reports whether a text can be a type: words separated by dots.
func isType(s string) bool {
	return s != "" && len(s) <= 200 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-*") == ""
}

func (q *QuietHours) check() (invalid []fault.Field) {
	if q == nil {
		return nil
	}
	for _, f := range []struct{ name, value string }{{"start_local", q.Start}, {"end_local", q.End}} {
		if _, err := time.Parse("15:04", f.value); err != nil || len(f.value) != 5 {
			invalid = append(invalid, fault.Field{Field: "quiet_hours." + f.name, Message: "must be a wall time such as 22:00"})
		}
	}
	if invalid == nil && q.Start == q.End {
		invalid = append(invalid, fault.Field{
			Field: "quiet_hours.end_local", Message: "must differ from the start; send null for no quiet hours",
		})
	}
	if zone, err := time.LoadLocation(q.Zone); err != nil || q.Zone == "" || zone == time.Local {
		invalid = append(invalid, fault.Field{Field: "quiet_hours.timezone", Message: "must be an IANA time zone such as Europe/Berlin"})
	}
	return invalid
}

// until returns when the current quiet hours end; zero outside of them.
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
	if !at.After(now) { // a wall time that occurs twice, when clocks are set back
		at = now.Add(time.Minute)
	}
	return at.UTC()
}

// channelsFor returns the channels by which a person receives a notification
// outside of the app, and when it is sent.
func (p *Prefs) channelsFor(n *Notification, now time.Time) (list []Channel, due time.Time) {
	if slices.ContainsFunc(p.Muted, func(pattern string) bool { return matches(pattern, n.Type) }) {
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
		if matches(pattern, n.Type) && len(pattern) > len(best) { // the longest pattern wins
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

// matches reports whether a pattern matches a type.
func matches(pattern, kind string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(kind, prefix)
	}
	return pattern == kind
}

func (s *Service) prefs(ctx context.Context, who authz.Caller, _ *nothing) (Prefs, error) {
	return orDefault(s.Delivery.GetPrefs(ctx, who.TenantID, who.UserID))
}

func orDefault(p *Prefs, err error) (Prefs, error) {
	switch {
	case err != nil:
		return Prefs{}, err
	case p == nil:
		return DefaultPrefs(), nil
	}
	return *p, nil
}

type prefsIn struct{ Body Prefs }

func (s *Service) setPrefs(ctx context.Context, who authz.Caller, in *prefsIn) (Prefs, error) {
	p := in.Body
	if invalid := p.check(); invalid != nil {
		return Prefs{}, fault.BadFields(invalid...)
	}
	p.complete()
	own := ""
	if s.canMail() { // who sets preferences wants to hear again
		people, err := s.Delivery.ListPeople(ctx, who.TenantID)
		if err != nil {
			return Prefs{}, err
		}
		if i := slices.IndexFunc(people, func(p Person) bool { return p.UserID == who.UserID }); i >= 0 {
			own = people[i].Email
		}
	}
	return answer(ctx, s.Writer, func(tx txn.Tx) (Prefs, error) {
		current, err := orDefault(s.Delivery.LockPrefsTx(tx, who.TenantID, who.UserID))
		if err != nil {
			return p, err
		}
		if err := route.Match(tx.Context(), current); err != nil {
			return p, err
		}
		tx.AfterCommit(func() { s.recipients.forget(who.TenantID) })
		if own != "" {
			if err := s.Delivery.DeleteOptOutTx(tx, who.TenantID, hashAddress(own)); err != nil {
				return p, err
			}
		}
		return p, s.Delivery.PutPrefsTx(tx, who.TenantID, who.UserID, p, s.Clock.Now())
	})
}
