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
	// maxDelay is how late a fire may be without counting as missed. The lease of
	// a node that died ends within it.
	maxDelay = time.Minute

	// maxMissedAge is how old a missed fire may be to be run late.
	maxMissedAge = 24 * time.Hour
)

// dueFire is a fire that is due.
type dueFire struct {
	at   time.Time // the newest one that is due
	next time.Time // the one after it, in the future; zero: none
	skip string    // why it starts no run; "": it does
}

// due returns the newest of the fires from the planned one up to now. Older
// ones are dropped.
func (c *Config) due(cron *Cron, planned, now time.Time) dueFire {
	d := dueFire{at: planned}
	if oldest := now.Add(-maxMissedAge); planned.Before(oldest) {
		first := cron.Next(oldest.Add(-time.Nanosecond))
		if first.IsZero() || first.After(now) {
			return dueFire{at: planned, next: first, skip: SkipMissed}
		}
		d.at = first
	}
	for d.next = cron.Next(d.at); !d.next.IsZero() && !d.next.After(now); d.next = cron.Next(d.at) {
		d.at = d.next
	}
	if c.Misfire == MisfireSkip && now.Sub(d.at) > maxDelay {
		d.skip = SkipMissed
	}
	return d
}

// runID is the id of a fire's run. It follows from the fire, so that there is
// one run of each.
func runID(tenant, agentID string, fire time.Time) string {
	return ident.At(fire, "schedule/"+tenant+"/"+agentID)
}

// Source is metadata.source of the runs that schedules start.
const Source = "schedule"

// fireKey is the member of a run's metadata with the time of its fire.
const fireKey = "schedule_fire"

// metadata is the metadata of a fire's run.
func metadata(fire time.Time) schema.Object {
	return schema.Object(fmt.Sprintf(`{"source":%q,%q:%q}`, Source, fireKey, fire.UTC().Format(time.RFC3339Nano)))
}

// The messages of runs whose schedule has none.
const (
	defaultMessage    = "Your schedule started this run, for %s. Do what your instructions say is to be done now."
	defaultReflection = "It is time to look at the state of your work. Find out what is pending, decide what matters most now, and do it."
)

// input is the input of a fire's run.
func (c *Config) input(fire time.Time, zone *time.Location) (schema.Object, error) {
	if c.AutonomousMode {
		message := c.ReflectionPrompt
		if blank(message) {
			message = defaultReflection
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
	if raw := members["message"]; raw != nil {
		if err := json.Unmarshal(raw, &message); err != nil {
			return nil, err
		}
	}
	if !blank(message) {
		return c.Input, nil
	}
	raw, err := json.Marshal(fmt.Sprintf(defaultMessage, fire.In(zone).Format(time.RFC3339)))
	if err != nil {
		return nil, err
	}
	members["message"] = raw
	b, err := json.Marshal(members, json.Deterministic(true))
	return b, err
}
