package notification

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

func TestQuietHours(t *testing.T) {
	t.Parallel()
	night := &QuietHours{Start: "22:00", End: "07:00", Zone: "Europe/Berlin"}
	noon := &QuietHours{Start: "12:00", End: "13:30", Zone: "UTC"}
	for _, tt := range []struct {
		q         *QuietHours
		now, want string
	}{
		{nil, "2026-01-10T23:00:00Z", ""},
		{night, "2026-01-10T20:59:59Z", ""},
		{night, "2026-01-10T21:00:00Z", "2026-01-11T06:00:00Z"},
		{night, "2026-01-11T00:30:00Z", "2026-01-11T06:00:00Z"},
		{night, "2026-01-11T05:59:59Z", "2026-01-11T06:00:00Z"},
		{night, "2026-01-11T06:00:00Z", ""},
		{night, "2026-07-10T20:00:00Z", "2026-07-11T05:00:00Z"},
		{night, "2026-03-28T22:00:00Z", "2026-03-29T05:00:00Z"}, // clocks go forward in between
		{night, "2026-12-31T22:00:00Z", "2027-01-01T06:00:00Z"},
		{noon, "2026-01-10T11:59:00Z", ""},
		{noon, "2026-01-10T12:00:00Z", "2026-01-10T13:30:00Z"},
		{noon, "2026-01-10T13:30:00Z", ""},
	} {
		var want time.Time
		if tt.want != "" {
			want = at(tt.want)
		}
		if got := tt.q.until(at(tt.now)); !got.Equal(want) {
			t.Errorf("%+v at %s: until %v, want %v", tt.q, tt.now, got, want)
		}
	}
	// In the hour that comes twice they end, but not in the past.
	twice := &QuietHours{Start: "01:00", End: "02:30", Zone: "Europe/Berlin"}
	for _, now := range []string{"2026-10-25T00:10:00Z", "2026-10-25T01:10:00Z"} {
		if got := twice.until(at(now)); !got.After(at(now)) || got.After(at("2026-10-25T01:30:00Z")) {
			t.Errorf("at %s: until %v", now, got)
		}
	}
}

func TestChannels(t *testing.T) {
	t.Parallel()
	p := Prefs{
		Channels:   PriorityChannels{Warning: []Channel{Webhook, Email, Email}, Info: []Channel{}},
		Overrides:  map[string][]Channel{"run.*": {Email}, "run.failed": {Webhook}, "run.completed": {}},
		Muted:      []string{"agent.suspended", "domain.*"},
		QuietHours: &QuietHours{Start: "22:00", End: "07:00", Zone: "UTC"},
	}
	if wrong := p.check(); wrong != nil {
		t.Fatal(wrong)
	}
	p.complete()
	day, night, morning := at("2026-01-10T12:00:00Z"), at("2026-01-10T23:00:00Z"), at("2026-01-11T07:00:00Z")
	for _, tt := range []struct {
		kind     string
		priority Priority
		now      time.Time
		want     []Channel
		due      time.Time
	}{
		{"system.alert", Critical, day, []Channel{Email}, day},
		{"system.alert", Critical, night, []Channel{Email}, night},
		{"system.alert", Warning, day, []Channel{Email, Webhook}, day},
		{"system.alert", Warning, night, []Channel{Email, Webhook}, morning},
		{"system.alert", Info, day, []Channel{}, day},
		{"system.alert", Success, day, []Channel{}, day},
		{"run.failed", Info, day, []Channel{Webhook}, day},
		{"run.awaiting_input", Info, day, []Channel{Email}, day},
		{"run.completed", Critical, day, []Channel{}, day},
		{"agent.suspended", Critical, day, nil, day},
		{"domain.agent.message", Warning, day, nil, day},
		{"domain", Warning, day, []Channel{Email, Webhook}, day},
	} {
		got, due := p.channelsFor(&Notification{Type: tt.kind, Priority: tt.priority}, tt.now)
		if diff := cmp.Diff(tt.want, got); diff != "" || !due.Equal(tt.due) {
			t.Errorf("%s %s: due %v (-want +got):\n%s", tt.kind, tt.priority, due, diff)
		}
	}
	d := DefaultPrefs()
	for priority, want := range map[Priority]string{Critical: "[email]", Warning: "[]", Info: "[]", Success: "[]"} {
		if got, _ := d.channelsFor(&Notification{Type: "x", Priority: priority}, day); fmt.Sprint(got) != want {
			t.Errorf("by default the channels of %s are %v", priority, got)
		}
	}
}

func TestWrongPrefs(t *testing.T) {
	t.Parallel()
	p := Prefs{
		Channels:   PriorityChannels{Critical: []Channel{"smoke"}, Warning: []Channel{InApp, "x"}, Info: []Channel{"push"}, Success: []Channel{""}},
		Overrides:  map[string][]Channel{"a b": nil, "": nil, "ok": {"fax"}},
		Muted:      []string{"ok", "näh"},
		QuietHours: &QuietHours{Start: "7:00", End: "24:00", Zone: "Mars/Olympus"},
	}
	var got []string
	for _, f := range p.check() {
		got = append(got, f.Field)
	}
	want := []string{
		"priority_channels.critical[0]", "priority_channels.warning[1]", "priority_channels.info[0]", "priority_channels.success[0]",
		"type_overrides", "type_overrides", "type_overrides.ok[0]", "muted_types[1]",
		"quiet_hours.start_local", "quiet_hours.end_local", "quiet_hours.timezone",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, parts := range [][3]string{{"22:00", "22:00", "UTC"}, {"22:00", "07:00", ""}, {"22:00", "07:00", "Local"}, {"22:00", "07:00", "../etc/passwd"}} {
		q := QuietHours{Start: parts[0], End: parts[1], Zone: parts[2]}
		if wrong := q.check(); len(wrong) != 1 {
			t.Errorf("%v: %v", parts, wrong)
		}
	}
}
