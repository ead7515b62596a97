package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"agentd/internal/base/secret"
	"agentd/internal/cli/scrape"
	"agentd/internal/client"
)

type topCommand struct {
	URL   string        `env:"AGENTD_URL" name:"url" default:"http://127.0.0.1:8080" placeholder:"URL" help:"Server whose metrics are shown, unless --node is used."`
	Node  []string      `placeholder:"ADDRESS" help:"Node, as HOST:PORT of its AGENTD_METRICS_LISTEN, or as a URL; several are shown together."`
	Every time.Duration `default:"2s" placeholder:"DURATION" help:"How often to look; rates and times are of what happened in between."`
	Once  bool          `help:"Look twice, print what happened in between, and end."`
}

// Validate implements a hook of kong.
func (cmd *topCommand) Validate() error {
	if cmd.Every < 100*time.Millisecond || cmd.Every > time.Hour {
		return fmt.Errorf("--every is %v and must be from 100ms to 1h", cmd.Every)
	}
	return nil
}

// look is what was seen of the nodes at one moment.
type look struct {
	reading scrape.Reading
	at      time.Time
	failed  []string // which nodes did not answer, and why
	nodes   int      // that answered
}

// Run implements the command.
func (cmd *topCommand) Run(inv *invocation) error {
	addresses, err := cmd.addresses()
	if err != nil {
		return err
	}
	before := cmd.look(inv, addresses)
	if before.nodes == 0 {
		return errors.New(strings.Join(before.failed, "\n"))
	}
	ticker := time.NewTicker(cmd.Every)
	defer ticker.Stop()
	for {
		select {
		case <-inv.Done():
			return nil // that is how it is left
		case <-ticker.C:
		}
		now := cmd.look(inv, addresses)
		if err := inv.showTop(before, now); err != nil || cmd.Once {
			return err
		}
		if now.nodes > 0 {
			before = now
		}
	}
}

// addresses returns the addresses of the metrics.
func (cmd *topCommand) addresses() (all []string, err error) {
	nodes := cmd.Node
	if len(nodes) == 0 {
		nodes = []string{cmd.URL}
	}
	for _, node := range nodes {
		address := node
		if !strings.Contains(address, "://") {
			address = "http://" + address
		}
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("%q is no address of a node, such as 10.0.0.1:9090", node)
		}
		if !strings.HasSuffix(u.Path, metricsPath) {
			u = u.JoinPath(metricsPath)
		}
		all = append(all, u.String())
	}
	return all, nil
}

// look reads the metrics of all nodes at once.
func (cmd *topCommand) look(ctx context.Context, addresses []string) (l look) {
	l.at = time.Now()
	readings, failures := make([]scrape.Reading, len(addresses)), make([]error, len(addresses))
	var all sync.WaitGroup
	for i, address := range addresses {
		all.Go(func() { readings[i], failures[i] = readMetrics(ctx, address) })
	}
	all.Wait()
	for i, err := range failures {
		if err != nil {
			l.failed = append(l.failed, fmt.Sprintf("%s: %v", addresses[i], err))
			continue
		}
		l.nodes++
		l.reading = append(l.reading, readings[i]...)
	}
	return l
}

const (
	metricsPath = "/metrics"
	// metricsTimeout bounds the time in which a node answers.
	metricsTimeout = 5 * time.Second
)

func readMetrics(ctx context.Context, address string) (scrape.Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	c, err := client.New(strings.TrimSuffix(address, metricsPath), secret.String{})
	if err != nil {
		return nil, err
	}
	res, err := c.Send(ctx, http.MethodGet, metricsPath, nil, nil)
	if p, ok := errors.AsType[*client.Problem](err); ok && p.Status == http.StatusNotFound {
		return nil, errors.New("it has no metrics here; where AGENTD_METRICS_LISTEN is set, name that address with --node")
	}
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return scrape.Read(res.Body)
}

// showTop prints what happened between two looks; on a terminal in place of the last.
func (inv *invocation) showTop(before, now look) error {
	if inv.stdoutTerminal {
		fmt.Fprint(inv.stdout, "\x1b[H\x1b[2J")
	}
	took := now.at.Sub(before.at)
	inv.say("%s, %s, over the last %s",
		plural(now.nodes, "node"), now.at.Local().Format(time.TimeOnly), formatDuration(took.Round(100*time.Millisecond)))
	for _, f := range now.failed {
		inv.say("%s", oneLine(f))
	}
	t := top{before: before.reading, now: now.reading, seconds: took.Seconds()}
	return inv.table([]string{"~WHAT", "~NOW", "~DETAILS"}, t.rows())
}

// top is what happened between two readings.
type top struct {
	before, now scrape.Reading
	seconds     float64
}

// rows returns one row for each part of a node.
func (t top) rows() [][]string {
	const (
		requests, ended = "agentd_http_requests_total", "agentd_run_duration_seconds"
		calls, tools    = "agentd_model_call_seconds", "agentd_tool_call_seconds"
	)
	return [][]string{
		{"requests", t.rate(requests, nil), t.times("agentd_http_request_duration_seconds", nil) +
			t.share("refused", requests, "status", "4xx") +
			t.share("failed", requests, "status", "5xx") + fmt.Sprintf("%.0f under way, %.0f streams",
			t.now.Sum("agentd_http_requests_in_flight", nil), t.now.Sum("agentd_http_streams_open", nil))},
		{"runs that ended", t.rate(ended, nil), t.times(ended, nil) + t.share("failed", ended, "status", "failed") +
			fmt.Sprintf("%.0f under way", t.now.Sum("agentd_runs_active", nil))},
		{"model calls", t.rate(calls, nil), t.times(calls, scrape.Labels{"outcome": "done"}) + t.share("failed", calls, "outcome", "failed") +
			fmt.Sprintf("%s tokens in, %s out", t.rate("agentd_model_tokens_total", scrape.Labels{"direction": "input"}),
				t.rate("agentd_model_tokens_total", scrape.Labels{"direction": "output"}))},
		{"tool calls", t.rate(tools, nil), t.times(tools, nil) + t.share("failed", tools, "outcome", "error")},
		{"writes", t.rate("agentd_writes_total", nil), t.times("agentd_commit_duration_seconds", nil) +
			"writer held p99 " + took(t.now.Max("agentd_writer_held_seconds", nil, .99))},
		{"queue", fmt.Sprintf("%.0f due", t.queue()), t.waiting()},
		{"search", "", "behind by " + took(t.now.Max("agentd_search_lag_seconds", nil, 0))},
		{"disk", size(t.now.Max("agentd_disk_free_bytes", nil, 0)), "free"},
	}
}

// rate returns how often something was counted in a second.
func (t top) rate(name string, labels scrape.Labels) string {
	return fmt.Sprintf("%.1f/s", t.counted(name, labels)/t.seconds)
}

// counted returns how often something was counted; 0 after a restart.
func (t top) counted(name string, labels scrape.Labels) float64 {
	return max(0, t.now.Sum(name, labels)-t.before.Sum(name, labels))
}

// times returns the median and the 99th percentile of durations.
func (t top) times(name string, labels scrape.Labels) string {
	median := t.now.Quantile(t.before, name, labels, .5)
	if math.IsNaN(median) {
		return ""
	}
	return fmt.Sprintf("p50 %s, p99 %s, ", took(median), took(t.now.Quantile(t.before, name, labels, .99)))
}

// share returns which part of what was counted has a label; "" for none.
func (t top) share(what, name, label, value string) string {
	all, part := t.counted(name, nil), t.counted(name, scrape.Labels{label: value})
	if part == 0 || all == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %% %s, ", 100*part/all, what)
}

// queue returns how much work is due. All nodes tell the same of it.
func (t top) queue() (due float64) {
	for _, kind := range t.now.Values("agentd_queue_depth", "kind") {
		due += t.now.Max("agentd_queue_depth", scrape.Labels{"kind": kind}, 0)
	}
	return due
}

// waiting lists the kinds of work that are due.
func (t top) waiting() string {
	var kinds []string
	for _, kind := range t.now.Values("agentd_queue_depth", "kind") {
		of := scrape.Labels{"kind": kind}
		if due := t.now.Max("agentd_queue_depth", of, 0); due > 0 {
			kinds = append(kinds, fmt.Sprintf("%s %.0f (oldest %s)", kind, due, took(t.now.Max("agentd_queue_oldest_seconds", of, 0))))
		}
	}
	return strings.Join(kinds, ", ")
}

// took returns a duration that is known in seconds; NaN: of nothing.
func took(s float64) string {
	if math.IsNaN(s) {
		return "-"
	}
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// size returns bytes in GiB; NaN: "-".
func size(bytes float64) string {
	if math.IsNaN(bytes) {
		return "-"
	}
	return fmt.Sprintf("%.1f GiB", bytes/(1<<30))
}
