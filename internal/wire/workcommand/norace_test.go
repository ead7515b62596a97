//go:build !race

package workcommand

const underRace = false
