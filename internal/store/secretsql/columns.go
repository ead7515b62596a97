package secretsql

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
)

// Column is a place in the database where sealed values are.
type Column struct {
	Table, Column string
	Where         string   // which rows have some; "": all
	Key           []string // the columns of the primary key

	// Context is what a value is bound to: a text with the row's columns in braces,
	// bytes spelled in base64url. {member} is the name of the JSON member.
	Context string
	// Former is Context for values from before they named their key; "": the same.
	Former string

	// Members are the members of the column's JSON object that hold values, as text
	// in Encoding. None: the column is the value.
	Members  []string
	Encoding *base64.Encoding
}

// Columns lists every place where sealed values are. A place that is missing here
// would need its key for ever; tests look for such places.
var Columns = []Column{
	document("a2a_credential", "token"),
	document("agent_identity", "private_key"),
	document("guardrail", "secret"),
	document("mcp_server", "env", "secret", "client_secret"),
	document("integration", "secrets"),
	payload("mail", "mail/{tenant_id}/{work_key}"),
	payload("signin", "signin/{work_key}"),
	{Table: "a2a_pushes", Column: "sealed", Key: []string{"tenant_id", "task_id", "config_id"},
		Context: "a2a_push/{tenant_id}/{task_id}/{config_id}"},
	{Table: "idempotency", Column: "answer", Key: []string{"tenant_id", "credential_id", "idem_key"},
		Context: "idempotency/{tenant_id}/{credential_id}/{idem_key}"},
	{Table: "kept_secrets", Column: "sealed", Key: []string{"name"}, Context: keptContext},
	{Table: "llm_credentials", Column: "sealed", Key: []string{"tenant_id", "provider_id"},
		Context: "llm_credentials\x00{tenant_id}\x00{provider_id}\x00{endpoint}"},
	{Table: "mcp_grants", Column: "sealed", Key: []string{"tenant_id", "server_id"}, Context: "mcp_grant/{tenant_id}/{server_id}"},
	{Table: "mcp_pending", Column: "sealed", Key: []string{"tenant_id", "pending_id"}, Context: "mcp_pending/{tenant_id}/{pending_id}"},
	{Table: "notification_targets", Column: "sealed", Key: []string{"tenant_id", "target_id"},
		Context: "notification_target/{tenant_id}/{target_id}"},
	{Table: "operator_settings", Column: "sealed", Key: []string{"section"}, Context: "operator_settings/{section}"},
	{Table: "sensors", Column: "sealed", Key: []string{"tenant_id", "webhook_id"}, Context: "sensor/{tenant_id}/{webhook_id}"},
	{Table: "session_shares", Column: "sealed", Key: []string{"share_hash"},
		Context: "session_share/{tenant_id}/{session_id}", Former: "session_share"},
	{Table: "signin_factors", Column: "sealed", Key: []string{"person"}, Context: "signin/factor/{person}"},
	{Table: "signin_tickets", Column: "sealed", Key: []string{"kind", "hash"}, Context: "signin/{kind}/{hash}"},
	{Table: "webhooks", Column: "sealed", Key: []string{"tenant_id", "webhook_id"}, Context: "webhook/{tenant_id}/{webhook_id}"},
}

// document is a kind of resource with secret fields.
func document(kind string, members ...string) Column {
	return Column{
		Table: "documents", Column: "body", Where: "kind = '" + kind + "'", Key: []string{"kind", "tenant_id", "id"},
		Context: "{kind}/{tenant_id}/{id}/{member}", Members: members, Encoding: base64.RawStdEncoding,
	}
}

// payload is a kind of work whose payload is sealed.
func payload(kind, context string) Column {
	return Column{
		Table: "work", Column: "payload", Where: "kind = '" + kind + "'", Key: []string{"kind", "work_key"},
		Context: context, Members: []string{"sealed"}, Encoding: base64.StdEncoding,
	}
}

var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

// selected returns the columns that a row is read with: the primary key, those of
// the context, and at last the one with the values.
func (c *Column) selected() []string {
	all := append([]string{}, c.Key...)
	for _, name := range placeholder.FindAllString(c.Context, -1) {
		if name = strings.Trim(name, "{}"); name != "member" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return append(all, c.Column)
}

// row is a row of a column, as selected returns its columns.
type row struct {
	of     *Column
	values []any
}

// key returns the values of the primary key.
func (r row) key() []any { return r.values[:len(r.of.Key)] }

// stored returns the column with the values.
func (r row) stored() []byte { return []byte(spell(r.values[len(r.values)-1], false)) }

// name names the row for a person.
func (r row) name() string {
	parts := make([]string, len(r.of.Key))
	for i, v := range r.key() {
		parts[i] = spell(v, true)
	}
	return r.of.Table + " " + strings.Join(parts, "/")
}

// context fills in a template.
func (r row) context(template, member string) string {
	names := r.of.selected()
	return placeholder.ReplaceAllStringFunc(template, func(name string) string {
		name = strings.Trim(name, "{}")
		if name == "member" {
			return member
		}
		for i, n := range names {
			if n == name {
				return spell(r.values[i], true)
			}
		}
		return ""
	})
}

// spell returns a value of a database as text.
func spell(v any, encoded bool) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		if encoded {
			return base64.RawURLEncoding.EncodeToString(v)
		}
		return string(v)
	}
	return ""
}
