// Command growth fills a database with as many runs as an installation has after
// a long time, and measures what should not depend on that: every list by every
// filter while two clients write, a restart after a kill, and bytes per run.
//
//	go run ./bench/growth                               # 1,000,000 runs on SQLite
//	go run ./bench/growth -runs 100000 -engine postgres # on a PostgreSQL server of its own
//	go run ./bench/growth -postgres URL                 # in an empty PostgreSQL database
//
// A real run of a real server is made first. The others are copies of its rows
// with other ids, times, states and texts.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

type settings struct {
	runs     int
	engine   string
	postgres string // URL
	dir      string
	requests int
}

func main() {
	var s settings
	flag.IntVar(&s.runs, "runs", 1_000_000, "number of runs")
	flag.StringVar(&s.engine, "engine", "sqlite", "sqlite, or postgres: a server of its own")
	flag.StringVar(&s.postgres, "postgres", "", "URL of an empty PostgreSQL database")
	flag.StringVar(&s.dir, "dir", "", "directory of the data, kept afterwards; a temporary one without it")
	flag.IntVar(&s.requests, "requests", 200, "requests of each list")
	flag.Parse()
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

func run(s settings) (err error) {
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "agentd-growth-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	}
	if s.engine == "postgres" && s.postgres == "" {
		address, stop, err := startPostgres()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		s.postgres = address
	}
	build := exec.Command("go", "build", "-o", s.dir, "./cmd/agentd", "./bench/simmodel")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	m, err := newMachine(s)
	if err != nil {
		return err
	}
	defer m.stop()
	made, err := m.first()
	if err != nil {
		return fmt.Errorf("the first run: %w", err)
	}
	if err := m.server.stop(); err != nil {
		return err
	}
	start := time.Now()
	things, err := fill(s, made)
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	filled := time.Since(start)
	if err := m.startServer(); err != nil {
		return err
	}
	engine := "SQLite"
	if s.postgres != "" {
		engine = "PostgreSQL"
	}
	fmt.Printf("%d runs on %s, %s, %d cores, %s; filled in %.0f s\n\n", s.runs, engine, time.Now().Format(time.DateOnly), runtime.NumCPU(),
		runtime.GOARCH, filled.Seconds())
	if err := m.measureLists(s, things); err != nil {
		return err
	}
	if err := m.measureTurns(things); err != nil {
		return err
	}
	if err := m.measureRestart(); err != nil {
		return err
	}
	if err := m.measureBytes(s, things); err != nil {
		return err
	}
	if s.postgres != "" {
		return reportTables(s.postgres, s.runs)
	}
	return nil
}

func (s settings) database() string { return filepath.Join(s.dir, "data", "agentd.db") }
