package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"regexp"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// Cron is a cron expression in a time zone. It is immutable.
type Cron struct {
	minute, hour, day, month, weekday uint64 // bit n: the value n

	either bool // day and weekday are both restricted: a match of one is enough
	zone   *time.Location
}

const (
	// cadence is the minimum time between two fires.
	cadence = 5 * time.Minute

	// searchYears bounds the search for the next fire: two leap days can be eight
	// years apart.
	searchYears = 9

	star = 1 << 63 // the bit that the parser sets for a field that is "*"
)

var (
	fieldNames = [...]string{"minute", "hour", "day of month", "month", "day of week"}

	// literals matches a field that lists its values one by one.
	literals = regexp.MustCompile(`^[0-9]+(,[0-9]+)*$`)

	// parser reads five fields and nothing else: no seconds, no years, no names
	// of whole schedules, no L, W, # and H.
	parser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
)

var (
	errFields  = errors.New("expected five fields: minute, hour, day of month, month and day of week")
	errNever   = errors.New("no day ever fits it")
	errCadence = errors.New("it fires more than once within five minutes; list the minutes one by one (0,2,4) if that is meant")
)

// ParseCron parses an expression of five fields: lists, ranges, steps and
// English names. As in cron, a day matches by its day of month or its day of
// week where neither field is "*", and by both otherwise.
//
// It refuses an expression that no day ever matches, and one whose minute field
// has two values less than five minutes apart, unless that field lists its
// values one by one. Errors are sentences for callers.
func ParseCron(text string, zone *time.Location) (*Cron, error) {
	fields := strings.Fields(text)
	if len(fields) != len(fieldNames) || strings.Contains(fields[0], "=") {
		return nil, errFields
	}
	parsed, err := parser.Parse(strings.Join(fields, " "))
	spec, ok := parsed.(*cron.SpecSchedule)
	if err != nil || !ok {
		return nil, invalidField(fields)
	}
	c := &Cron{
		minute: spec.Minute, hour: spec.Hour, day: spec.Dom, month: spec.Month, weekday: cron.NormalizeDOW(spec.Dow),
		either: spec.Dom&star == 0 && spec.Dow&star == 0, zone: zone,
	}
	for i, set := range []uint64{c.minute, c.hour, c.day, c.month, c.weekday} {
		if set == 0 || strings.Contains(","+fields[i]+",", ",,") {
			return nil, unreadable(fields, i)
		}
	}
	if !literals.MatchString(fields[0]) && closest(c.minute&^star) < cadence {
		return nil, errCadence
	}
	if c.Next(time.Unix(0, 0)).IsZero() {
		return nil, errNever
	}
	return c, nil
}

// invalidField returns an error that names the field that cannot be read.
func invalidField(fields []string) error {
	for i, field := range fields {
		alone := [...]string{"*", "*", "*", "*", "*"}
		alone[i] = field
		if _, err := parser.Parse(strings.Join(alone[:], " ")); err != nil {
			return unreadable(fields, i)
		}
	}
	return errFields
}

func unreadable(fields []string, i int) error {
	return fmt.Errorf("its %s field %q is no list of values, ranges and steps that such a field can have", fieldNames[i], fields[i])
}

// closest returns the shortest distance of two minutes of a set within an hour.
func closest(minutes uint64) time.Duration {
	shortest := time.Hour
	for last := -1; minutes != 0; minutes &= minutes - 1 {
		m := bits.TrailingZeros64(minutes)
		if last >= 0 {
			shortest = min(shortest, time.Duration(m-last)*time.Minute)
		}
		last = m
	}
	return shortest
}

// Next returns the first fire after a moment; zero if there is none.
//
// Each matching wall time fires once: at the first of its moments where it
// occurs twice, and at the end of the gap where it is skipped. Fires that
// coincide by that are one.
func (c *Cron) Next(after time.Time) time.Time {
	from := wallOf(after, c.zone).Truncate(time.Minute)
	day := time.Date(from.Year(), from.Month(), from.Day(), 0, 0, 0, 0, time.UTC)
	for last := day.AddDate(searchYears, 0, 0); !day.After(last); {
		if c.month&(1<<day.Month()) == 0 {
			day = time.Date(day.Year(), day.Month()+1, 1, 0, 0, 0, 0, time.UTC)
			continue
		}
		if c.matches(day) {
			if at := c.onDay(day, from, after); !at.IsZero() {
				return at
			}
		}
		day = day.AddDate(0, 0, 1)
	}
	return time.Time{}
}

func (c *Cron) matches(day time.Time) bool {
	inMonth := c.day&(1<<day.Day()) != 0
	inWeek := c.weekday&(1<<day.Weekday()) != 0
	if c.either {
		return inMonth || inWeek
	}
	return inMonth && inWeek
}

// onDay returns the first fire of a day whose wall time is from or later and
// whose moment is later than after. Where clocks were put back, a later wall
// time can be an earlier moment.
func (c *Cron) onDay(day, from, after time.Time) time.Time {
	for hours := c.hour &^ star; hours != 0; hours &= hours - 1 {
		hour := day.Add(time.Duration(bits.TrailingZeros64(hours)) * time.Hour)
		if hour.Add(time.Hour).Before(from) {
			continue
		}
		for minutes := c.minute &^ star; minutes != 0; minutes &= minutes - 1 {
			wall := hour.Add(time.Duration(bits.TrailingZeros64(minutes)) * time.Minute)
			if wall.Before(from) {
				continue
			}
			if at := instant(wall, c.zone); at.After(after) {
				return at
			}
		}
	}
	return time.Time{}
}
