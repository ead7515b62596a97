package sqldbtest

import "strings"

// bounded are the tables that do not grow with use, and why.
var bounded = map[string]string{
	"goose_db_version": "a row for each migration",
	"nodes":            "a row for each node",
	"audit_push":       "one row: since when entries are pushed",
	"secret_keys":      "a row for each secret key",
	"secret_servers":   "a row for each node",
	"kept_secrets":     "a few secrets of the deployment",
	"search_marks":     "a row for each kind that is searched",
	"usage_entries":    "its rows move to the counters within seconds",
	"tenant_purges":    "a row for each purge under way",
}

// few are the tables of which one company has few rows, and why.
var few = map[string]string{
	"users":       "members of a company: many thousands at most, of which a plan is allowed so many",
	"webhooks":    "subscriptions that people make by hand, of which a plan is allowed so many",
	"sensors":     "addresses at which agents listen, of which an agent may have so many",
	"mcp_pending": "authorizations that are open in browsers; they end after minutes",
}

// exceptions are statements whose plans would be refused, by a part of their
// text, and why they may be sent.
var exceptions = map[string]string{
	"AS label_id":                      "it walks labels in the order of the list, and reads each row by its id, until the page is full",
	"AS word_id":                       "it walks the documents that have a word in the order of the list, and reads each by its id, until the page is full",
	"FROM search_words":                "the index of words finds the rows; those of other companies are not among them",
	"terms @@ ?::tsquery":              "the index of words finds the rows; those of other companies are not among them",
	"actor_user_id = ? AND action = ?": "the entries of one person are walked for an action of theirs, until the page is full or two seconds are over",
	"actor_key_id = ? AND action = ?":  "the same of one key",
	"FROM audit_unsent AS u":           "what is not sent yet is walked in its order, up to the limit",
	"WITH RECURSIVE tenants":           "its tenants are those that an index has found, one step each",
	"UPDATE work SET due_at = ?, owner = '' WHERE owner <> ''": "the one node of SQLite takes everything at its start, PostgreSQL has an index",
	"UPDATE work SET due_at = ? WHERE owner = '' AND due_at":   "once at a start: items whose time a wrong clock has set",
	"LENGTH(answer) > 0":  "a start and a rotation of keys look at every sealed value, a page at a time",
	"LENGTH(sealed) > 0":  "a start and a rotation of keys look at every sealed value, a page at a time",
	"GROUP BY source_id":  "it counts the passages of a knowledge base, which has 50,000 at most",
	"FROM usage_counters": "it adds up the counters of the days that are asked for, which it names by their range",
	"(SELECT 1 FROM sessions WHERE tenant_id = ? AND status = 'active' AND (expires_at": "its index has the active sessions only, and it stops at a limit",
}

func excepted(text string) bool {
	for part := range exceptions {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}
