package schedule

import (
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
)

var (
	configSchema = schema.Of[Config]()
	inputSchema  = schema.Of[run.Input]()
)

// read gives an agent's field as what it says. Errors: fault.Malformed, and
// fault.Invalid with every wrong field.
func read(field schema.Nullable) (*Config, *Cron, error) {
	c := new(Config)
	if err := configSchema.DecodeInto(field, c, false); err != nil {
		return nil, nil, err
	}
	at, wrong := c.check()
	if len(wrong) > 0 {
		return nil, nil, fault.BadFields(wrong...)
	}
	return c, at, nil
}

// check gives the expression, and what is wrong beyond the schema.
func (c *Config) check() (at *Cron, wrong []fault.Field) {
	add := func(field, message string) { wrong = append(wrong, fault.Field{Field: field, Message: message}) }
	zone, known := loadZone(c.Timezone)
	if !known {
		add("timezone", "there is no such time zone; use an IANA name such as Europe/Berlin or UTC")
		zone, _ = loadZone("UTC")
	}
	at, err := ParseCron(c.Cron, zone)
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
				add("input."+field.Field, field.Message)
			}
		}
	}
	return at, wrong
}

// Check says what is wrong with an agent's field; null is none.
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
	wrong := make([]fault.Field, len(f.Fields))
	for i, field := range f.Fields {
		wrong[i] = fault.Field{Field: "schedule." + field.Field, Message: field.Message}
	}
	return wrong
}

// canonical is a configuration as one text: equal where it says the same.
func (c *Config) canonical() (string, error) {
	own := *c
	if blank(string(own.Input)) {
		own.Input = schema.Object("{}")
	}
	b, err := json.Marshal(&own)
	return string(b), err
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
