// Package goldentest compares generated content with files of the repository.
// The flag -update writes the files instead; make golden does so for all of
// them.
package goldentest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// Check compares got with a file; path is relative to the package.
func Check(t testing.TB, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is stale; run make golden (-want +got):\n%s", path, diff)
	}
}

// CheckPart compares got with the part of a file between two lines.
func CheckPart(t testing.TB, path, begin, end string, got []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := bytes.Cut(text, []byte(begin+"\n"))
	_, after, ends := bytes.Cut(rest, []byte(end))
	if !begins || !ends {
		t.Fatalf("%s has no part between %q and %q", path, begin, end)
	}
	Check(t, path, slices.Concat(before, []byte(begin+"\n"), got, []byte(end), after))
}

// Seed adds the files that match a pattern to the corpus of a fuzz target.
func Seed(f *testing.F, pattern string) {
	f.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		f.Fatalf("%d files fit %s: %v", len(paths), pattern, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
}
