package secretsql_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentd/internal/store/secretsql"
	"agentd/internal/store/sqldb/sqldbtest"
)

// plain are the columns of bytes that hold no sealed values, and what they hold.
var plain = map[string]string{
	"api_keys.secret_hash":              "a hash",
	"blob_parts.data":                   "files, which are not sealed",
	"browser_sessions.secret_hash":      "a hash",
	"browser_sessions.key_hash":         "a hash",
	"idempotency.body":                  "a hash",
	"idempotency.request":               "a hash",
	"invites.secret_hash":               "a hash",
	"notification_optouts.address_hash": "a hash",
	"notification_targets.confirm_hash": "a hash",
	"passages.vector":                   "numbers made of texts that are not sealed",
	"search_words_data.block":           "the index of texts",
	"search_words_docsize.sz":           "the index of texts",
	"signin_attempts.browser":           "a hash",
	"signin_attempts.code_hash":         "a hash",
	"signin_attempts.long_hash":         "a hash",
	"signin_factors.recovery":           "hashes",
	"signin_tickets.hash":               "a hash",
	"integration_documents.document":    "the compressed description of a service",
	"visitor_sessions.token_hash":       "a hash",
	"webhook_events.body":               "an event as it is sent",
}

// Every column of bytes is a place of sealed values, or it is known why not.
func TestColumnsOfBytesAreKnown(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.SQLite)
	rows, err := db.Query(t.Context(), `SELECT m.name || '.' || c.name FROM sqlite_master m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND c.type IN ('BYTEA', 'BLOB') ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	known := 0
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		sealed := slices.ContainsFunc(secretsql.Columns, func(c secretsql.Column) bool { return c.Table+"."+c.Column == name })
		switch {
		case sealed:
			known++
		case plain[name] == "":
			t.Errorf("is %s sealed? Then add it to Columns, otherwise say in plain (places_test.go) what it holds", name)
		}
	}
	if err := rows.Err(); err != nil || known < 10 {
		t.Errorf("%d columns are sealed: %v", known, err)
	}
}

// Every call in the program that seals, by package, and every secret field of a
// kind of resource, has its place in Columns.
var sealers = map[string]string{
	"accounts/identity":     "stream tokens, which are not stored",
	"accounts/signin":       "signin_tickets, signin_factors, work",
	"agents/mcp":            "mcp_grants, mcp_pending; states in links, which are not stored",
	"agents/providerkey":    "llm_credentials",
	"delivery/integration":  "mcp_pending; states in links, which are not stored",
	"delivery/notification": "notification_targets; states in links, which are not stored",
	"delivery/webhook":      "webhooks",
	"execution/sensor":      "sensors",
	"execution/session":     "session_shares",
	"kernel/idempotency":    "idempotency",
	"kernel/mail":           "work",
	"kernel/resource":       "documents",
	"operation/setting":     "operator_settings",
	"store/backupsql":       "the keys of backups, which are files",
	"store/secretsql":       "kept_secrets",
	"teams/a2a":             "a2a_pushes",
}

var (
	sealCall    = regexp.MustCompile(`(?i)\bbox\.Seal\(`)
	secretField = regexp.MustCompile("json:\"([a-z_]+)[^`]*secret:\"true\"")
)

func TestPlacesThatSealAreKnown(t *testing.T) {
	t.Parallel()
	var members []string
	for _, c := range secretsql.Columns {
		if c.Table == "documents" {
			members = append(members, c.Members...)
		}
	}
	root := filepath.Join("..", "..")
	calls, fields := map[string]bool{}, 0
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test"+string(filepath.Separator)) {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		if pkg := filepath.ToSlash(rel); sealCall.Match(source) {
			calls[pkg] = true
			if sealers[pkg] == "" {
				t.Errorf("%s seals: add the place to Columns and say so in sealers (places_test.go)", path)
			}
		}
		for _, m := range secretField.FindAllSubmatch(source, -1) {
			fields++
			if !slices.Contains(members, string(m[1])) {
				t.Errorf("%s has the secret field %s, which Columns lacks", path, m[1])
			}
		}
		return nil
	})
	if err != nil || len(calls) != len(sealers) || fields < 4 {
		t.Errorf("%v: %d packages seal, %d are listed; %d secret fields", err, len(calls), len(sealers), fields)
	}
}
