package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/tool"
)

// How connections are encrypted. Any other value of Database.TLS and MailServer.TLS is
// the strict default of its connector: a checked certificate, or STARTTLS.
const (
	TLSOff = "off"
	TLSOn  = "on" // of mail: from the first byte; of databases: any certificate is accepted
)

// maxRows is how many rows of a query a model gets.
const maxRows = 200

func (v *Integration) database() *Database {
	values := v.values()
	return &Database{
		Host: text(values["host"]), Port: number(values["port"]), Name: text(values["database"]), User: text(values["user"]),
		Password: secret.New(text(values["password"])), TLS: text(values["tls"]),
	}
}

// listTables and describeTable read the catalogue of the database that the user may see.
const (
	listTables = `SELECT table_schema, table_name, table_type FROM information_schema.tables
		WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2`
	describeTable = `SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns
		WHERE table_schema = $1 AND table_name = $2 ORDER BY ordinal_position`
)

func (s *Toolsets) callPostgres(ctx context.Context, v *Integration, o *Operation, call *tool.Call) (tool.Result, error) {
	var in struct {
		SQL   string `json:"sql"`
		Table string `json:"table"`
	}
	if err := unmarshalArguments(call, &in); err != nil {
		return tool.Failure("The arguments are no JSON object."), nil
	}
	sql, args := in.SQL, []any(nil)
	switch o.Name {
	case "postgres_list_tables":
		sql = listTables
	case "postgres_describe_table":
		schema, table, qualified := strings.Cut(in.Table, ".")
		if !qualified {
			schema, table = "public", in.Table
		}
		sql, args = describeTable, []any{schema, table}
	}
	rows, err := s.Databases.Query(ctx, v.database(), sql, args, maxRows)
	if fault.Is(err, fault.Invalid) {
		return tool.Failure(fault.From(err).Detail), nil // the model can fix its query
	}
	if err != nil {
		return tool.Result{}, err
	}
	out, err := json.Marshal(rows, json.Deterministic(true))
	return tool.Result{Output: string(out)}, err
}

func unmarshalArguments(call *tool.Call, in any) error {
	if call.Arguments == "" {
		return nil
	}
	return json.Unmarshal([]byte(call.Arguments), in)
}

func (v *Integration) mailServer() *MailServer {
	values := v.values()
	return &MailServer{
		Host: text(values["host"]), Port: number(values["port"]), TLS: text(values["tls"]), User: text(values["user"]),
		Password: secret.New(text(values["password"])), From: text(values["from"]),
	}
}

func (s *Toolsets) callSMTP(ctx context.Context, v *Integration, call *tool.Call) (tool.Result, error) {
	var in struct {
		To      string `json:"to"`
		Subject string `json:"subject"`
		Body    string `json:"body"`
	}
	if err := unmarshalArguments(call, &in); err != nil {
		return tool.Failure("The arguments are no JSON object."), nil
	}
	if strings.ContainsAny(in.To+in.Subject, "\r\n") {
		return tool.Failure("to and subject must be one line each."), nil
	}
	if domains := texts(v.values()["recipient_domains"]); len(domains) > 0 {
		_, domain, _ := strings.Cut(in.To, "@")
		if !slices.ContainsFunc(domains, func(d string) bool { return strings.EqualFold(d, domain) }) {
			return tool.Failure("This integration may only write to recipients at: " + strings.Join(domains, ", ") + "."), nil
		}
	}
	err := s.Mailer.Send(ctx, v.mailServer(), &Letter{ID: call.StepID, To: in.To, Subject: in.Subject, Text: in.Body})
	if fault.Is(err, fault.Invalid) {
		return tool.Failure(fault.From(err).Detail), nil
	}
	return tool.Result{Output: fmt.Sprintf("The mail server accepted the message to %s.", in.To)}, err
}
