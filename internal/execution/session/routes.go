package session

import (
	"agentd/internal/base/authz"
	"agentd/internal/base/route"
)

const tag = "Sessions"

var (
	readers = []authz.Scope{"sessions:read"}
	writers = []authz.Scope{"sessions:write"}
	// talkers may do what a conversation needs: a key that may run agents may
	// also talk with them.
	talkers = []authz.Scope{"sessions:write", "runs:create"}
)

func read(path, id, summary string) route.Row {
	return route.Row{
		Method: "GET", Path: "/api/v1/sessions" + path, ID: id, Tag: tag, Summary: summary, Scopes: readers, Role: authz.Viewer,
	}
}

func write(method, path, id, summary string, scopes []authz.Scope) route.Row {
	return route.Row{
		Method: method, Path: "/api/v1/sessions" + path, ID: id, Tag: tag, Summary: summary, Scopes: scopes, Role: authz.Developer,
	}
}

// destroys marks a row that a legal hold refuses.
func destroys(r route.Row) route.Row {
	r.Destroys = true
	return r
}

// with returns row with its success status and its additional error statuses.
func with(row route.Row, status int, errors ...int) route.Row {
	row.Status, row.Errors = status, errors
	return row
}

// documented returns row with a description.
func documented(row route.Row, doc string) route.Row {
	row.Doc = doc
	return row
}
