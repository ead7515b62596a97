package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// reportHeld reports for how long commits had the server's writer.
func (b *bench) reportHeld(p *process) error {
	status, answer, err := p.ask("GET", "/metrics", "")
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("metrics: %d, %w", status, err)
	}
	for _, q := range []struct {
		quantile, what string
		most           float64 // ms
	}{{"0.99", "p99", 100}, {"1", "longest", 500}} {
		seconds, err := metric(answer, `agentd_writer_held_seconds{quantile="`+q.quantile+`"}`)
		if err != nil {
			return err
		}
		b.report("the writer held by one commit, up to 256 clients: "+q.what, "", "", seconds*1000, atMost(q.most, " ms"))
	}
	return nil
}

// metric returns the value of a line of metrics.
func metric(text []byte, name string) (float64, error) {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("there is no metric %s", name)
}
