//go:build !race

package backupsql_test

const underRace = false
