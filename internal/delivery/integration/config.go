package integration

import (
	"fmt"
	"maps"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/egress"
)

// Bounds of a config. The document of http has its own.
const (
	maxText    = 16 << 10
	maxEntries = 500
)

var toolPrefix = regexp.MustCompile(`^[A-Za-z0-9_-]{0,20}$`)

// fieldErrors collects invalid fields.
type fieldErrors []fault.Field

func (c *fieldErrors) add(field, format string, args ...any) {
	*c = append(*c, fault.Field{Field: field, Message: fmt.Sprintf(format, args...)})
}

// merged applies a config that a client sent to that of an integration: a member
// replaces the stored one, null removes it, and [stored] keeps a secret. document is
// the OpenAPI document if one was sent. Errors: fault.Invalid with every invalid
// field; secret_would_move.
func (c *Connector) merged(v *Integration, sent jsontext.Value) (document []byte, err error) {
	var wrong fieldErrors
	patch := map[string]any{}
	if len(sent) > 0 && sent.Kind() != 'n' {
		if err := json.Unmarshal(sent, &patch); err != nil {
			return nil, fault.BadFields(fault.Field{Field: "config", Message: "expected an object"})
		}
	}
	open, secrets := map[string]any{}, v.secrets()
	if len(v.Config) > 0 {
		if err := json.Unmarshal(v.Config, &open); err != nil {
			return nil, err
		}
	}
	before := maps.Clone(open)
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		value := patch[name]
		field, known := c.ConfigSchema[name]
		switch {
		case !known:
			wrong.add("config."+name, "the connector %s has no such setting; it has: %s", c.ID,
				strings.Join(slices.Sorted(maps.Keys(c.ConfigSchema)), ", "))
		case value == nil:
			delete(open, name)
			delete(secrets, name)
		case value == stored && (field.Secret || c.ID == connectorHTTP && name == fieldDocument):
		case c.ID == connectorHTTP && name == fieldDocument:
			if document, err = documentOf(value); err != nil {
				wrong.add("config."+name, "%s", fault.From(err).Detail)
			}
			open[name] = stored
		case field.check(&wrong, "config."+name, value):
			if field.Secret {
				secrets[name] = value.(string)
			} else {
				open[name] = value
			}
		}
	}
	c.complete(&wrong, open, secrets)
	if len(wrong) > 0 {
		return nil, fault.BadFields(wrong...)
	}
	if c.moves(before, open) && (v.Account != "" || reused(v.secrets(), patch)) {
		return nil, fault.New(fault.Invalid, "secret_would_move",
			"A credential is stored for this integration and the change would send it elsewhere. Send the secrets again, or authorize it again.")
	}
	if v.Config, err = json.Marshal(open, json.Deterministic(true)); err != nil {
		return nil, err
	}
	text, err := json.Marshal(secrets, json.Deterministic(true))
	v.Secrets = string(text)
	return document, err
}

// complete adds defaults and reports what is missing.
func (c *Connector) complete(wrong *fieldErrors, open map[string]any, secrets map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(c.ConfigSchema)) {
		field := c.ConfigSchema[name]
		_, has := open[name]
		if field.Secret {
			_, has = secrets[name]
		}
		switch {
		case has:
		case field.Default != "" && field.Type == "integer":
			var n float64
			_, _ = fmt.Sscan(field.Default, &n) // the file of the connector is tested
			open[name] = n
		case field.Default != "":
			open[name] = field.Default
		case field.Required:
			wrong.add("config."+name, "required by the connector %s", c.ID)
		}
	}
}

// moves reports whether a change sends the credential elsewhere.
func (c *Connector) moves(before, after map[string]any) bool {
	for name, field := range c.ConfigSchema {
		if !field.Anchor || before[name] == nil {
			continue
		}
		was, is := fmt.Sprint(before[name]), fmt.Sprint(after[name])
		if field.Format == "uri" {
			was, is = mcp.Origin(was), mcp.Origin(is)
		}
		if was != is {
			return true
		}
	}
	return false
}

// reused reports whether a secret is kept that the client did not send again.
func reused(kept map[string]string, patch map[string]any) bool {
	for name := range kept {
		if sent, has := patch[name]; !has || sent == stored {
			return true
		}
	}
	return false
}

// check reports whether a value fits the field.
func (f *Field) check(wrong *fieldErrors, path string, value any) bool {
	n := len(*wrong)
	switch f.Type {
	case "string":
		text, ok := value.(string)
		switch {
		case !ok:
			wrong.add(path, "expected a string")
		case len(text) > maxText:
			wrong.add(path, "at most %d bytes", maxText)
		case strings.ContainsAny(text, "\x00\r\n"):
			wrong.add(path, "no line breaks are allowed")
		case f.Enum != nil && !slices.Contains(f.Enum, text):
			wrong.add(path, "expected one of: %s", strings.Join(f.Enum, ", "))
		case f.Required && strings.TrimSpace(text) == "":
			wrong.add(path, "must not be blank")
		}
	case "integer":
		if number, ok := value.(float64); !ok || number != math.Trunc(number) || math.Abs(number) > 1<<31 {
			wrong.add(path, "expected a whole number")
		}
	case "boolean":
		if _, ok := value.(bool); !ok {
			wrong.add(path, "expected true or false")
		}
	case "array":
		list, ok := value.([]any)
		if !ok || len(list) > maxEntries || slices.ContainsFunc(list, func(item any) bool { return !isText(item) }) {
			wrong.add(path, "expected at most %d strings", maxEntries)
		}
	case "object":
		members, ok := value.(map[string]any)
		if !ok || len(members) > maxEntries {
			wrong.add(path, "expected at most %d members", maxEntries)
		}
		for name, item := range members {
			if !isText(item) {
				wrong.add(path+"."+name, "expected a string")
			}
		}
	}
	return len(*wrong) == n
}

func isText(v any) bool {
	text, ok := v.(string)
	return ok && len(text) <= maxText
}

// validate checks the addresses of a config, and what its fields mean together.
// Errors: fault.Invalid with every invalid field.
func (s *core) validate(c *Connector, v *Integration) error {
	var wrong fieldErrors
	values := v.values()
	for _, name := range slices.Sorted(maps.Keys(c.ConfigSchema)) {
		address, _ := values[name].(string)
		if c.ConfigSchema[name].Format != "uri" || address == "" {
			continue
		}
		if err := s.CheckURL(address); err != nil {
			wrong.add("config."+name, "%s", fault.From(err).Detail)
		}
	}
	switch c.ID {
	case connectorHTTP:
		checkHTTP(&wrong, values)
	case connectorPostgres, connectorSMTP:
		if port := number(values["port"]); port < 1 || port > 65535 {
			wrong.add("config.port", "expected a port from 1 to 65535")
		}
	}
	if len(wrong) > 0 {
		return fault.BadFields(wrong...)
	}
	return nil
}

func checkHTTP(wrong *fieldErrors, values map[string]any) {
	if values[fieldDocument] == nil && text(values["spec_url"]) == "" {
		wrong.add("config.spec_url", "required, or the document itself in config.spec")
	}
	switch auth := text(values["auth"]); {
	case auth == authNone:
	case text(values["api_key"]) == "":
		wrong.add("config.api_key", "required with auth %s", auth)
	case auth == "basic" && text(values["username"]) == "":
		wrong.add("config.username", "required with auth basic")
	case (auth == "header" || auth == "query") && text(values["auth_name"]) == "":
		wrong.add("config.auth_name", "required with auth %s: the name of the header or of the parameter", auth)
	case auth == "header" && !validHeader(text(values["auth_name"])):
		wrong.add("config.auth_name", "not a header that can carry a credential")
	}
	if text(values["api_key"]) != "" && !printable(text(values["api_key"])) {
		wrong.add("config.api_key", "only printable ASCII characters can be sent")
	}
	if !toolPrefix.MatchString(text(values["prefix"])) {
		wrong.add("config.prefix", "at most 20 letters, digits, - and _")
	}
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func number(v any) int {
	n, _ := v.(float64)
	return int(n)
}

func texts(v any) []string {
	list, _ := v.([]any)
	all := make([]string, 0, len(list))
	for _, item := range list {
		all = append(all, text(item))
	}
	return all
}

func textMap(v any) map[string]string {
	members, _ := v.(map[string]any)
	all := make(map[string]string, len(members))
	for name, item := range members {
		all[name] = text(item)
	}
	return all
}

// addresses returns the URLs of a config, nothing for nil.
func (s *core) addresses(v *Integration) []egress.Address {
	if v == nil {
		return nil
	}
	c := s.catalogue.byID[v.ConnectorID]
	if c == nil {
		return nil
	}
	var all []egress.Address
	values := v.values()
	for _, name := range slices.Sorted(maps.Keys(c.ConfigSchema)) {
		if address := text(values[name]); c.ConfigSchema[name].Format == "uri" && address != "" {
			all = append(all, egress.Address{Field: "config." + name, URL: address})
		}
	}
	if host := text(values["host"]); host != "" {
		all = append(all, egress.Address{Field: "config.host", URL: "https://" + net.JoinHostPort(host, strconv.Itoa(number(values["port"])))})
	}
	return all
}
