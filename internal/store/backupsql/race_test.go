//go:build race

package backupsql_test

// underRace reports whether the race detector watches, which makes some tests twenty times
// slower; .ci/run plays those without it.
const underRace = true
