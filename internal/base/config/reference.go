package config

import (
	"fmt"
	"iter"
	"reflect"
	"strings"

	"agentd/internal/base/secret"
)

// Setting is one setting with its value, ready to be shown: secrets are
// redacted.
type Setting struct {
	Group   string
	Env     string // AGENTD_LISTEN
	Flag    string // --listen
	Default string
	Doc     string
	Value   string

	secret string // the value, where Value does not show all of it
}

// Settings lists the settings of a configuration in the order of its fields.
func (c *Config) Settings() iter.Seq[Setting] {
	return func(yield func(Setting) bool) {
		groups := reflect.ValueOf(c).Elem()
		for i := range groups.NumField() {
			for s := range settings(groups.Type().Field(i).Tag.Get("group"), groups.Field(i)) {
				if !yield(s) {
					return
				}
			}
		}
	}
}

func settings(group string, fields reflect.Value) iter.Seq[Setting] {
	return func(yield func(Setting) bool) {
		for i := range fields.NumField() {
			f := fields.Type().Field(i)
			if f.Anonymous { // its fields are flags of their own
				for s := range settings(group, fields.Field(i)) {
					if !yield(s) {
						return
					}
				}
				continue
			}
			name := f.Tag.Get("name")
			if name == "" {
				name = kebab(f.Name)
			}
			s := Setting{
				Group: group, Env: f.Tag.Get("env"), Flag: "--" + name,
				Default: f.Tag.Get("default"), Doc: f.Tag.Get("help"), Value: show(fields.Field(i).Interface()),
			}
			if v, ok := reflect.TypeAssert[interface{ Reveal() string }](fields.Field(i)); ok && v.Reveal() != s.Value {
				s.secret = v.Reveal()
			}
			if !yield(s) {
				return
			}
		}
	}
}

// Secrets returns the values of the settings that hold a secret, by their
// environment variables.
func (c *Config) Secrets() map[string]string {
	all := map[string]string{}
	for s := range c.Settings() {
		if s.secret != "" {
			all[s.Env] = s.secret
		}
	}
	return all
}

// show returns a value as its environment variable would hold it.
func show(value any) string {
	if v, ok := value.(interface{ Empty() bool }); ok && v.Empty() {
		return ""
	}
	return fmt.Sprint(value)
}

// kebab turns DataDir into data-dir, the spelling of the command line.
func kebab(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('-')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

// Dump returns the configuration as the lines of an environment file, with
// secrets redacted.
func (c *Config) Dump() string {
	var b strings.Builder
	group := ""
	for s := range c.Settings() {
		if s.Group != group {
			fmt.Fprintf(&b, "# %s\n", s.Group)
			group = s.Group
		}
		fmt.Fprintf(&b, "%s=%s\n", s.Env, s.Value)
	}
	return b.String()
}

// Reference returns the text of docs/configuration.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Configuration

` + "`agentd serve`" + ` works without any setting. Each can be given as a flag or as an environment variable; the flag wins,
and an empty variable counts as absent. Prefer variables for secrets: flags can be seen in the list of processes.
` + "`agentd config`" + ` prints what is in force, with secrets shown as ` + "`" + secret.Redacted + "`" + `.

This page is made from the program by ` + "`agentd config reference`" + `.
`)
	group := ""
	row := func(s Setting) {
		if s.Group != group {
			fmt.Fprintf(&b, "\n## %s\n\n| Variable | Flag | Default | What it says |\n|---|---|---|---|\n", s.Group)
			group = s.Group
		}
		def := ""
		if s.Default != "" {
			def = "`" + s.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", s.Env, s.Flag, def, strings.ReplaceAll(s.Doc, "|", `\|`))
	}
	for s := range new(Config).Settings() {
		row(s)
	}
	for s := range settings("Commands that talk to a server", reflect.ValueOf(Client{})) {
		row(s)
	}
	return b.String()
}
