//go:build !race

package rule_test

const underRace = false
