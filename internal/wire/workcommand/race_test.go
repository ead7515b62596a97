//go:build race

package workcommand

// underRace reports whether the race detector watches.
const underRace = true
