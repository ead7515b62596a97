// Command measure compares a built agentd with what the machine allows, by
// ratios that are taken in one run, and prints them beside their targets. It
// exits with 1 where a target is missed.
//
//	go run ./bench/measure             # everything, about 12 minutes
//	go run ./bench/measure -quick      # a first impression, about 2 minutes
//	go run ./bench/measure -only chat  # scenarios whose name contains "chat"
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

type settings struct {
	quick bool
	only  string
	runs  int           // how often a pair is measured; medians count
	span  time.Duration // of one measurement
}

func main() {
	var s settings
	flag.BoolVar(&s.quick, "quick", false, "short measurements, each once")
	flag.StringVar(&s.only, "only", "", "only scenarios whose name contains this")
	flag.IntVar(&s.runs, "runs", 3, "measurements of each pair; medians count")
	flag.DurationVar(&s.span, "span", 3*time.Second, "length of one measurement")
	flag.Parse()
	if s.quick {
		s.runs, s.span = 1, time.Second
	}
	missed, err := run(s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(2)
	}
	if missed > 0 {
		fmt.Printf("\n%d targets missed\n", missed)
		os.Exit(1)
	}
}

func run(s settings) (missed int, err error) {
	b, err := newBench(s)
	if err != nil {
		return 0, err
	}
	defer b.close()
	fmt.Println("| what | agentd | beside it | measure | target | |")
	fmt.Println("|---|--:|--:|--:|--:|---|")
	for _, sc := range scenarios {
		if !strings.Contains(sc.name, s.only) || (s.quick && sc.long) {
			continue
		}
		if err := sc.run(b); err != nil {
			return b.missed, fmt.Errorf("%s: %w", sc.name, err)
		}
	}
	return b.missed, nil
}

// target is a bound on one number.
type target struct {
	bound   float64
	atLeast bool // otherwise: at most
	unit    string
}

func atLeast(bound float64) target             { return target{bound, true, ""} }
func atMost(bound float64, unit string) target { return target{bound, false, unit} }

// report prints one row of the table. own and beside are what was measured,
// value is what the target is about.
func (b *bench) report(what, own, beside string, value float64, t target) {
	sign, met := "≤", value <= t.bound
	if t.atLeast {
		sign, met = "≥", value >= t.bound
	}
	verdict := "met"
	if !met {
		verdict = "MISSED"
		b.missed++
	}
	fmt.Printf("| %s | %s | %s | %.2f%s | %s %g%s | %s |\n", what, own, beside, value, t.unit, sign, t.bound, t.unit, verdict)
}
