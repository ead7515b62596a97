package schedule

import (
	"strings"
	"time"
	_ "time/tzdata" // so that zones are known where the system has none
)

// farthest is more than the offset of any zone from UTC.
const farthest = 36 * time.Hour

// instant returns the first moment at which the clocks of a zone show a wall
// time or a later one. Of a wall time that occurs twice that is the first; of
// one that is skipped it is the end of the gap. Later wall times never return
// earlier moments.
//
// wall is a wall time written as if it were UTC. time.Date cannot be used: it
// does not define which moment it returns in these two cases.
func instant(wall time.Time, zone *time.Location) time.Time {
	for t := wall.Add(-farthest).In(zone); ; {
		start, end := t.ZoneBounds()
		_, offset := t.Zone()
		at := wall.Add(-time.Duration(offset) * time.Second)
		if at.Before(start) {
			at = start
		}
		if end.IsZero() || at.Before(end) {
			return at.UTC()
		}
		t = end
	}
}

// wallOf returns the wall time of a zone, written as if it were UTC.
func wallOf(t time.Time, zone *time.Location) time.Time {
	t = t.In(zone)
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// loadZone finds an IANA time zone. It does not accept names of the machine's own
// zone, or of clocks that count leap seconds.
func loadZone(name string) (*time.Location, bool) {
	switch {
	case name == "", name == "Local", name == "localtime", name == "posixrules", name == "Factory",
		strings.HasPrefix(name, "posix/"), strings.HasPrefix(name, "right/"):
		return nil, false
	}
	zone, err := time.LoadLocation(name)
	return zone, err == nil
}
