//go:build race

package engine_test

// slower is how many times fewer worlds are played under the race detector,
// under which a database in Go takes its time.
const slower = 10
