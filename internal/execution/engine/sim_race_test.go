//go:build race

package engine_test

// slower is the factor by which fewer worlds are simulated under the race
// detector, which makes a database in Go slow.
const slower = 40
