package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxNamed is how many failed tests the last line names.
const maxNamed = 10

// report collects the results of the tests.
type report struct {
	out    io.Writer
	output map[name]*strings.Builder // of tests that did not pass yet, and of packages
	builds map[string]*strings.Builder

	passed, skipped  int
	packages, cached int
	failed           []name // tests, and packages without a failed test
	took             map[name]float64
}

// name is a test, or a package where the test is "".
type name struct{ pkg, test string }

func (n name) String() string {
	short := strings.TrimPrefix(n.pkg, module)
	if n.test == "" {
		return short
	}
	return short[strings.LastIndexByte(short, '/')+1:] + "." + n.test
}

// module is the prefix that all import paths share.
const module = "agentd/"

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[name]*strings.Builder{}, builds: map[string]*strings.Builder{}, took: map[name]float64{}}
}

// add takes one event.
func (r *report) add(e *event) {
	n := name{e.Package, e.Test}
	switch e.Action {
	case "output":
		r.keep(n, e.Output)
	case "build-output":
		if r.builds[e.ImportPath] == nil {
			r.builds[e.ImportPath] = &strings.Builder{}
		}
		r.builds[e.ImportPath].WriteString(e.Output)
	case "pass", "skip", "fail":
		if e.Test == "" {
			r.endPackage(n, e)
		} else {
			r.endTest(n, e)
		}
	}
}

func (r *report) keep(n name, output string) {
	if r.output[n] == nil {
		r.output[n] = &strings.Builder{}
	}
	r.output[n].WriteString(output)
}

// endTest counts a test. The output of one that passed is dropped.
func (r *report) endTest(n name, e *event) {
	r.took[n] = e.Elapsed
	switch e.Action {
	case "pass":
		r.passed++
	case "skip":
		r.skipped++
	case "fail":
		r.failed = append(r.failed, n)
		return
	}
	delete(r.output, n)
}

// endPackage prints a package's line, and all that its failed tests printed.
func (r *report) endPackage(n name, e *event) {
	text := ""
	if b := r.output[n]; b != nil {
		text = b.String()
	}
	delete(r.output, n)
	if strings.Contains(text, "[no test files]") || e.Action == "skip" {
		return
	}
	r.packages++
	if e.Action == "pass" {
		note := ""
		if strings.Contains(text, "(cached)") {
			r.cached++
			note = " (cached)"
		}
		fmt.Fprintf(r.out, "ok    %s %.1fs%s\n", n, e.Elapsed, note)
		return
	}
	named := false
	for _, f := range r.failed {
		if f.pkg == n.pkg {
			named = true
			fmt.Fprint(r.out, r.output[f])
			delete(r.output, f)
		}
	}
	for running, b := range r.output { // tests that a panic or a timeout cut off
		if running.pkg == n.pkg {
			named = true
			r.failed = append(r.failed, running)
			fmt.Fprint(r.out, b)
			delete(r.output, running)
		}
	}
	if b := r.builds[e.FailedBuild]; b != nil {
		fmt.Fprint(r.out, b)
		delete(r.builds, e.FailedBuild) // once is enough for all that import it
	}
	if !named {
		r.failed = append(r.failed, n)
	}
	fmt.Fprintf(r.out, "%sFAIL  %s %.1fs\n", text, n, e.Elapsed)
}

// finish prints the last line.
func (r *report) finish(ok bool, took time.Duration, slowest int) {
	if slowest > 0 {
		r.slowest(slowest)
	}
	counts := fmt.Sprintf("%d tests passed, %d skipped in %d packages (%d cached), %s",
		r.passed, r.skipped, r.packages, r.cached, took.Round(time.Second))
	if ok {
		fmt.Fprintln(r.out, "PASS: "+counts)
		return
	}
	// The tests around a failed subtest fail too: only the innermost is named.
	var names []string
	for _, n := range r.failed {
		if !slices.ContainsFunc(r.failed, func(o name) bool { return o.pkg == n.pkg && strings.HasPrefix(o.test, n.test+"/") && n.test != "" }) {
			names = append(names, n.String())
		}
	}
	more := ""
	if len(names) > maxNamed {
		more = fmt.Sprintf(" and %d more", len(names)-maxNamed)
		names = names[:maxNamed]
	}
	fmt.Fprintf(r.out, "FAIL: %s%s; %s\n", strings.Join(names, ", "), more, counts)
}

// slowest prints the top-level tests that took the longest.
func (r *report) slowest(n int) {
	took := r.withSubtests()
	var all []name
	for test := range took {
		if !strings.Contains(test.test, "/") {
			all = append(all, test)
		}
	}
	slices.SortFunc(all, func(a, b name) int {
		return cmp.Or(cmp.Compare(took[b], took[a]), strings.Compare(a.String(), b.String()))
	})
	for _, test := range all[:min(n, len(all))] {
		fmt.Fprintf(r.out, "%7.1fs %s\n", took[test], test)
	}
}

// withSubtests returns the seconds that each test took, at least those of its subtests
// together: a test does not count parallel subtests, which run when it has ended.
func (r *report) withSubtests() map[name]float64 {
	took, subtests := maps.Clone(r.took), map[name]float64{}
	deepest := slices.SortedFunc(maps.Keys(took), func(a, b name) int {
		return cmp.Compare(strings.Count(b.test, "/"), strings.Count(a.test, "/"))
	})
	for _, n := range deepest {
		took[n] = max(took[n], subtests[n])
		if end := strings.LastIndexByte(n.test, '/'); end > 0 {
			subtests[name{n.pkg, n.test[:end]}] += took[n]
		}
	}
	return took
}
