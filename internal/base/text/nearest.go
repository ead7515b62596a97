package text

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// longestName bounds the names that Nearest compares, whose time grows with the
// product of their lengths.
const longestName = 64

// Nearest returns the candidate that name was probably meant to be, "" if none
// resembles it: the one with the fewest typing errors, up to a third of its
// letters (two in a short name), else the shortest one that contains the name or is
// contained in it, if no other is as short. Case does not matter.
func Nearest(name string, candidates []string) string {
	if name == "" || len(name) > longestName {
		return ""
	}
	lower := strings.ToLower(name)
	best, errors := "", max(min(len(name)/2, 2), len(name)/3)+1 // two: letters that changed places
	within, tie := "", false
	for _, candidate := range candidates {
		if len(candidate) > longestName {
			continue
		}
		other := strings.ToLower(candidate)
		if d := levenshtein.ComputeDistance(lower, other); d < errors && d < len(other) {
			best, errors = candidate, d
		}
		if len(lower) >= 3 && len(other) >= 3 && (strings.Contains(other, lower) || strings.Contains(lower, other)) {
			switch {
			case within == "" || len(candidate) < len(within):
				within, tie = candidate, false
			case len(candidate) == len(within):
				tie = true
			}
		}
	}
	if best == "" && !tie {
		return within
	}
	return best
}

// Errors returns how many letters of a word must be added, left out or replaced to make
// another. Two neighbours that are exchanged count once.
func Errors(a, b string) int {
	n := levenshtein.ComputeDistance(a, b)
	if n == 2 && len(a) == len(b) && swapped(a, b) {
		return 1
	}
	return n
}

// swapped reports whether two words of equal length differ by two neighbours that are
// exchanged.
func swapped(a, b string) bool {
	for i := 0; i+1 < len(a); i++ {
		if a[i] != b[i] {
			return a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
		}
	}
	return false
}
