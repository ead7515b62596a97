package schedule

import (
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/difftag"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
)

var (
	configSchema = schema.Of[Config]()
	inputSchema  = schema.Of[run.Input]()
)

// read decodes and validates an agent's field. Errors: fault.Malformed, and
// fault.Invalid with every invalid field.
func read(field schema.Nullable) (*Config, *Cron, error) {
	c := new(Config)
	if err := configSchema.DecodeInto(field, c, false); err != nil {
		return nil, nil, err
	}
	cron, invalid := c.check()
	if len(invalid) > 0 {
		return nil, nil, fault.BadFields(invalid...)
	}
	return c, cron, nil
}

// check returns the parsed expression, and the fields that are invalid beyond
// the schema.
func (c *Config) check() (cron *Cron, invalid []fault.Field) {
	add := func(field, message string) { invalid = append(invalid, fault.Field{Field: field, Message: message}) }
	zone, known := loadZone(c.Timezone)
	if !known {
		add("timezone", "there is no such time zone; use an IANA name such as Europe/Berlin or UTC")
		zone, _ = loadZone("UTC")
	}
	cron, err := ParseCron(c.Cron, zone)
	if err != nil {
		add("cron", err.Error())
	}
	if len(c.Input) > 0 {
		if err := inputSchema.Check(c.Input, true); err != nil {
			f := fault.From(err)
			if len(f.Fields) == 0 {
				add("input", "it cannot be read")
			}
			for _, field := range f.Fields {
				invalid = append(invalid, field.Under("input"))
			}
		}
	}
	return cron, invalid
}

// Check returns the invalid fields of an agent's schedule; null is no schedule.
func Check(field schema.Nullable) []fault.Field {
	if len(field) == 0 {
		return nil
	}
	_, _, err := read(field)
	if err == nil {
		return nil
	}
	f := fault.From(err)
	if len(f.Fields) == 0 {
		return []fault.Field{{Field: "schedule", Message: "it cannot be read"}}
	}
	invalid := make([]fault.Field, len(f.Fields))
	for i, field := range f.Fields {
		invalid[i] = field.Under("schedule")
	}
	return invalid
}

// stored is the configuration as it is stored, in the agent and in the state:
// all fields, with their defaults.
func (c *Config) stored() (string, error) {
	full := *c
	if blank(string(full.Input)) {
		full.Input = schema.Object("{}")
	}
	b, err := json.Marshal(&full)
	return string(b), err
}

// restartTag is the tag of Config's fields.
const restartTag = "restarts"

// differs reports whether a change of the configuration restarts the schedule.
func differs(old, now *Config) bool { return difftag.Changed(restartTag, old, now) }

// decodeStored decodes a stored configuration, also one of an earlier build,
// which lacks newer fields: they get their defaults.
func decodeStored(text string) (*Config, error) {
	c := new(Config)
	if err := configSchema.DecodeInto([]byte(text), c, false); err != nil {
		return nil, err
	}
	return c, nil
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
