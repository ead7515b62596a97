package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentd/internal/execution/schedule"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func parse(t testing.TB, text, in string) *schedule.Cron {
	t.Helper()
	c, err := schedule.ParseCron(text, zone(t, in))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// at reads "2026-03-29 01:59" as a wall time that is neither skipped nor comes
// twice, or with an offset, as one that does.
func at(t testing.TB, text, in string) time.Time {
	t.Helper()
	if m, err := time.Parse("2006-01-02 15:04 -07:00", text); err == nil {
		return m.UTC()
	}
	m, err := time.ParseInLocation("2006-01-02 15:04", text, zone(t, in))
	if err != nil {
		t.Fatal(err)
	}
	return m.UTC()
}

func TestDaylightSaving(t *testing.T) {
	t.Parallel()
	const berlin, york, howe, apia = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"
	for _, c := range []struct {
		name, cron, zone, after string
		want                    []string
	}{
		{
			"skipped_shifts_to_the_end_of_the_gap", "30 2 * * *", berlin, "2026-03-28 12:00",
			[]string{"2026-03-29 03:00", "2026-03-30 02:30"},
		},
		{
			"all_that_is_skipped_fires_once", "*/15 2 * * *", berlin, "2026-03-28 12:00",
			[]string{"2026-03-29 03:00", "2026-03-30 02:00", "2026-03-30 02:15"},
		},
		{
			"skipped_and_regular_are_one", "30 2,3 * * *", berlin, "2026-03-28 12:00",
			[]string{"2026-03-29 03:00", "2026-03-29 03:30", "2026-03-30 02:30"},
		},
		{
			"hourly_over_the_gap", "0 * * * *", berlin, "2026-03-29 00:30",
			[]string{"2026-03-29 01:00", "2026-03-29 03:00", "2026-03-29 04:00"},
		},
		{
			"twice_fires_the_first_time", "30 2 * * *", berlin, "2026-10-24 12:00",
			[]string{"2026-10-25 02:30 +02:00", "2026-10-26 02:30"},
		},
		{
			"hourly_over_the_hour_that_comes_twice", "0 * * * *", berlin, "2026-10-25 00:30",
			[]string{"2026-10-25 01:00", "2026-10-25 02:00 +02:00", "2026-10-25 03:00"},
		},
		{
			"asked_in_the_second_round", "*/20 * * * *", berlin, "2026-10-25 02:10 +01:00",
			[]string{"2026-10-25 03:00", "2026-10-25 03:20"},
		},
		{
			"asked_within_the_first_round", "*/20 * * * *", berlin, "2026-10-25 02:10 +02:00",
			[]string{"2026-10-25 02:20 +02:00", "2026-10-25 02:40 +02:00", "2026-10-25 03:00"},
		},
		{
			"new_york_spring", "15 2 * * *", york, "2026-03-07 12:00",
			[]string{"2026-03-08 03:00", "2026-03-09 02:15"},
		},
		{
			"new_york_autumn", "15 1 * * *", york, "2026-10-31 12:00",
			[]string{"2026-11-01 01:15 -04:00", "2026-11-02 01:15"},
		},
		{
			"lord_howe_skips_half_an_hour", "0,15,30 2 * * *", howe, "2026-10-03 12:00",
			[]string{"2026-10-04 02:30", "2026-10-05 02:00", "2026-10-05 02:15", "2026-10-05 02:30"},
		},
		{
			"lord_howe_has_half_an_hour_twice", "*/15 1 * * *", howe, "2026-04-04 12:00",
			[]string{
				"2026-04-05 01:00", "2026-04-05 01:15", "2026-04-05 01:30 +11:00", "2026-04-05 01:45 +11:00", "2026-04-06 01:00",
			},
		},
		{
			"apia_skips_a_day", "0 9 30 * *", apia, "2011-12-01 00:00",
			[]string{"2011-12-31 00:00", "2012-01-30 09:00"},
		},
		{
			"apia_daily_over_the_skipped_day", "0 9 * * *", apia, "2011-12-28 12:00",
			[]string{"2011-12-29 09:00", "2011-12-31 00:00", "2011-12-31 09:00"},
		},
		{
			"a_midnight_that_is_skipped", "0 0 * * *", "America/Sao_Paulo", "2018-11-03 12:00",
			[]string{"2018-11-04 01:00", "2018-11-05 00:00"},
		},
		{"utc", "0 0 1 1 *", "UTC", "2026-01-01 00:00", []string{"2027-01-01 00:00", "2028-01-01 00:00"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cron := parse(t, c.cron, c.zone)
			m := at(t, c.after, c.zone)
			var got, want []string
			for _, text := range c.want {
				m = cron.Next(m)
				got = append(got, m.In(zone(t, c.zone)).Format(time.RFC3339))
				want = append(want, at(t, text, c.zone).In(zone(t, c.zone)).Format(time.RFC3339))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, cron, after, want string }{
		{"names", "0 9 * JAN-mar MON,wed", "2026-01-01 12:00", "2026-01-05 09:00"},
		{"sunday_is_seven", "0 0 * * 7", "2026-01-01 00:00", "2026-01-04 00:00"},
		{"over_the_end_of_the_week", "0 0 * * FRI-MON", "2026-01-06 00:00", "2026-01-09 00:00"},
		{"over_midnight", "0 22-2/2 * * *", "2026-01-01 23:00", "2026-01-02 00:00"},
		{"day_or_weekday", "0 0 13 * 5", "2026-01-03 00:00", "2026-01-09 00:00"},
		{"day_or_weekday_by_day", "0 0 13 * 5", "2026-01-10 00:00", "2026-01-13 00:00"},
		{"month_and_weekday", "0 0 * 2 1", "2026-01-01 00:00", "2026-02-02 00:00"},
		{"leap_day", "0 0 29 2 *", "2026-01-01 00:00", "2028-02-29 00:00"},
		{"leap_day_over_a_century", "0 0 29 2 *", "2096-03-01 00:00", "2104-02-29 00:00"},
		{"short_months", "0 0 31 * *", "2026-01-31 00:00", "2026-03-31 00:00"},
		{"exactly_now_is_over", "0 12 * * *", "2026-01-01 12:00", "2026-01-02 12:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := parse(t, c.cron, "UTC").Next(at(t, c.after, "UTC"))
			if want := at(t, c.want, "UTC"); !got.Equal(want) {
				t.Errorf("after %s comes %v, want %v", c.after, got, want)
			}
		})
	}
}

func TestExpressionsThatAreRefused(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                                      "five fields",
		"* * * *":                               "five fields",
		"0 0 * * * *":                           "five fields",
		"@daily":                                "five fields",
		"TZ=UTC 0 0 * *":                        "five fields",
		"CRON_TZ=UTC 0 0 * * *":                 "five fields",
		"60 * * * *":                            "minute",
		"0 24 * * *":                            "hour",
		"0 0 0 * *":                             "day of month",
		"0 0 L * *":                             "day of month",
		"0 0 1 13 *":                            "month",
		"0 0 * * 8":                             "day of week",
		"0 0 * * MON#1":                         "day of week",
		"H 0 * * *":                             "minute",
		"x 0 * * *":                             "minute",
		"-1 0 * * *":                            "minute",
		"0 */0 * * *":                           "hour",
		"0,,5 0 * * *":                          "minute",
		", 0 * * *":                             "minute",
		"0 0 30 2 *":                            "no day",
		"0 0 31 2,4,6,9,11 *":                   "no day",
		"* * * * *":                             "five minutes",
		"*/4 * * * *":                           "five minutes",
		"0-2 * * * *":                           "five minutes",
		"*/5,1 * * * *":                         "five minutes",
		"0-59/1 0 1 1 *":                        "five minutes",
		"0 0 1 1 " + strings.Repeat("1,", 2000): "day of week",
	} {
		_, err := schedule.ParseCron(text, time.UTC)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40q: %v, which does not say %q", text, err, says)
		}
	}
	for _, text := range []string{
		"*/5 * * * *", "0,1,2 * * * *", "59 * * * *", "*/7 * * * *", "3-58/5 0-23/2 1-31/3 */2 ?", "0 0 29 2 *", "0 0 30 2 1",
		" 0\t9  * * 1-5 ", "0 0 31 1-12 *",
	} {
		if _, err := schedule.ParseCron(text, time.UTC); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// fires walks the minutes of a span and says when an expression fires: at each
// minute at which clocks reach wall times that fit and that they had not
// reached before. It is the rule itself, and knows nothing of zones' bounds.
func fires(c expression, z *time.Location, from, to time.Time) (all []time.Time) {
	reached := wall(from.Add(-48*time.Hour), z)
	for m := from.Add(-48 * time.Hour); !m.After(to); m = m.Add(time.Minute) {
		hit := false
		for w := wall(m, z); reached.Before(w); {
			reached = reached.Add(time.Minute)
			hit = hit || c.fits(reached)
		}
		if hit && m.After(from) {
			all = append(all, m)
		}
	}
	return all
}

func wall(m time.Time, z *time.Location) time.Time {
	_, offset := m.In(z).Zone()
	return m.UTC().Add(time.Duration(offset) * time.Second)
}

// expression is a cron expression as sets; nil is every value.
type expression struct{ minutes, hours, days, months, weekdays []int }

func (e expression) String() string {
	field := func(set []int) string {
		if set == nil {
			return "*"
		}
		return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(set), "[]")), ",")
	}
	return strings.Join([]string{field(e.minutes), field(e.hours), field(e.days), field(e.months), field(e.weekdays)}, " ")
}

func (e expression) fits(w time.Time) bool {
	in := func(set []int, v int) bool { return set == nil || slices.Contains(set, v) }
	day := in(e.days, w.Day()) && in(e.weekdays, int(w.Weekday()))
	if e.days != nil && e.weekdays != nil {
		day = in(e.days, w.Day()) || in(e.weekdays, int(w.Weekday()))
	}
	return in(e.minutes, w.Minute()) && in(e.hours, w.Hour()) && in(e.months, int(w.Month())) && day
}

var zones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo", "Asia/Kathmandu",
	"Africa/Casablanca", "Antarctica/Troll", "America/St_Johns", "Pacific/Kiritimati", "Pacific/Chatham",
}

// Fires are exactly those of the rule, however they are asked for: they rise
// strictly, each wall time fires once, and none is lost.
func TestFiresAreThoseOfTheRule(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		set := func(name string, low, high, most int) []int {
			return rapid.SliceOfNDistinct(rapid.IntRange(low, high), 1, most, rapid.ID[int]).Draw(r, name)
		}
		maybe := func(name string, low, high, most int) []int {
			if rapid.Bool().Draw(r, name+" free") {
				return nil
			}
			return set(name, low, high, most)
		}
		e := expression{
			minutes: set("minutes", 0, 59, 4), hours: maybe("hours", 0, 23, 6), days: maybe("days", 1, 28, 20),
			weekdays: maybe("weekdays", 0, 6, 4),
		}
		z := zone(t, rapid.SampledFrom(zones).Draw(r, "zone"))
		from := rapid.SampledFrom(changes(z)).Draw(r, "change").Add(-time.Duration(rapid.IntRange(0, 4000).Draw(r, "before")) * time.Minute)
		to := from.Add(6 * 24 * time.Hour)

		c, err := schedule.ParseCron(e.String(), z)
		if err != nil {
			r.Fatalf("%s: %v", e, err)
		}
		var got []time.Time
		for m := c.Next(from); !m.IsZero() && !m.After(to); m = c.Next(m) {
			if len(got) > 0 && !m.After(got[len(got)-1]) {
				r.Fatalf("%v follows %v", m, got[len(got)-1])
			}
			got = append(got, m)
		}
		if diff := cmp.Diff(fires(e, z, from, to), got); diff != "" {
			r.Fatalf("%s in %s from %v (-rule +got):\n%s", e, z, from, diff)
		}
	})
}

// changes are moments at which a zone's clocks were put, and one at which
// they were not.
func changes(z *time.Location) []time.Time {
	all := []time.Time{time.Date(2026, 9, 10, 12, 0, 0, 0, time.UTC)}
	m := time.Date(2011, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 20 {
		_, end := m.In(z).ZoneBounds()
		if end.IsZero() {
			break
		}
		all = append(all, end.UTC().Truncate(time.Minute))
		m = end
	}
	return all
}

func TestAYearOfFires(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cron, zone string
		want       int
	}{
		{"*/5 * * * *", "UTC", 365 * 288},
		{"0 9 * * 1-5", "America/New_York", 261},
		{"30 2 * * *", "Europe/Berlin", 365},
		// 23 hours in spring and 25 in autumn: the skipped hour comes together
		// with the next, and the second of the two does not count.
		{"0 * * * *", "Europe/Berlin", 365*24 - 1},
		{"0 * * * *", "UTC", 365 * 24},
		{"0 0 1 * *", "Pacific/Apia", 12},
		{"*/30 * * * *", "Australia/Lord_Howe", 365*48 - 1},
	} {
		t.Run(strings.Map(word, c.cron+c.zone), func(t *testing.T) {
			t.Parallel()
			cron, z := parse(t, c.cron, c.zone), zone(t, c.zone)
			from, to := time.Date(2026, 1, 1, 0, 0, 0, 0, z).Add(-time.Nanosecond), time.Date(2027, 1, 1, 0, 0, 0, 0, z)
			n := 0
			for m := cron.Next(from); m.Before(to); m = cron.Next(m) {
				n++
			}
			if n != c.want {
				t.Errorf("%d fires, want %d", n, c.want)
			}
		})
	}
}

func word(r rune) rune {
	if r == '*' || r == '/' || r == ' ' || r == '-' {
		return '_'
	}
	return r
}

func FuzzParseCron(f *testing.F) {
	for _, text := range []string{"0 9 * * 1-5", "*/5 * * * *", "0,1 22-2/2 ? JAN FRI-MON", "TZ=UTC 0 0 * * *", "H H * * *", "0 0 L * 5#3", "0 0 29 2 *"} {
		f.Add(text, "Europe/Berlin")
	}
	now := time.Date(2026, 9, 10, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text, in string) {
		z, err := time.LoadLocation(in)
		if err != nil {
			z = time.UTC
		}
		c, err := schedule.ParseCron(text, z)
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without a word")
			}
			return
		}
		first := c.Next(now)
		second := c.Next(first)
		if !first.After(now) || !second.After(first) {
			t.Errorf("%q fires at %v and %v after %v", text, first, second, now)
		}
	})
}
