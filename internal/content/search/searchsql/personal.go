package searchsql

import "agentd/internal/kernel/personal"

const words = "The index has the words of runs and sessions, to find them by."

// Personal is what these tables keep of people.
var Personal = []personal.Table{
	{Name: "search_docs", By: personal.Run, Column: "thing_id", Where: "kind = 'run'", Erased: personal.Deleted, Why: words},
	{Name: "search_docs", By: personal.Session, Column: "thing_id", Where: "kind = 'session'", Erased: personal.Deleted, Why: words},
}
