package schedule

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
)

const (
	// punctual is how late a fire may be without having been missed: a lease
	// that a dead node held ends within it.
	punctual = time.Minute

	// makeUp is how old a missed fire may be to be made up for.
	makeUp = 24 * time.Hour
)

// turn is what is due at a moment.
type turn struct {
	fire time.Time // the newest fire that is due
	next time.Time // the one after it, in the future; zero: none
	skip string    // why fire makes no run; "": it does
}

// due looks at the fires from the planned one up to now. Of several only the
// newest counts.
func (c *Config) due(at *Cron, planned, now time.Time) turn {
	t := turn{fire: planned}
	if oldest := now.Add(-makeUp); planned.Before(oldest) {
		first := at.Next(oldest.Add(-time.Nanosecond))
		if first.IsZero() || first.After(now) {
			return turn{fire: planned, next: first, skip: SkipMissed}
		}
		t.fire = first
	}
	for t.next = at.Next(t.fire); !t.next.IsZero() && !t.next.After(now); t.next = at.Next(t.fire) {
		t.fire = t.next
	}
	if c.Misfire == MisfireSkip && now.Sub(t.fire) > punctual {
		t.skip = SkipMissed
	}
	return t
}

// runID is the one id that the run of a fire can have.
func runID(tenant, agentID string, fire time.Time) string {
	return ident.At(fire, "schedule/"+tenant+"/"+agentID)
}

// Source is metadata.source of the runs that schedules make.
const Source = "schedule"

// fireKey is the member of a run's metadata that says for when it was made.
const fireKey = "schedule_fire"

// metadata says of a run that a schedule made it, and for when.
func metadata(fire time.Time) schema.Object {
	return schema.Object(fmt.Sprintf(`{"source":%q,%q:%q}`, Source, fireKey, fire.UTC().Format(time.RFC3339Nano)))
}

// What a run is asked whose schedule says nothing.
const (
	asked     = "Your schedule started this run, for %s. Do what your instructions say is to be done now."
	reflected = "It is time to look at the state of your work. Find out what is pending, decide what matters most now, and do it."
)

// input is what the run of a fire gets.
func (c *Config) input(fire time.Time, zone *time.Location) (schema.Object, error) {
	if c.AutonomousMode {
		message := c.ReflectionPrompt
		if blank(message) {
			message = reflected
		}
		b, err := json.Marshal(map[string]string{"message": message})
		return b, err
	}
	members := map[string]jsontext.Value{}
	if len(c.Input) > 0 {
		if err := json.Unmarshal(c.Input, &members); err != nil {
			return nil, err
		}
	}
	var message string
	if said := members["message"]; said != nil {
		if err := json.Unmarshal(said, &message); err != nil {
			return nil, err
		}
	}
	if !blank(message) {
		return c.Input, nil
	}
	said, err := json.Marshal(fmt.Sprintf(asked, fire.In(zone).Format(time.RFC3339)))
	if err != nil {
		return nil, err
	}
	members["message"] = said
	b, err := json.Marshal(members, json.Deterministic(true))
	return b, err
}
