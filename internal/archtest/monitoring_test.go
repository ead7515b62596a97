package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	metricUsed   = regexp.MustCompile(`\bagentd_[a-z0-9_]+`)
	metricMade   = regexp.MustCompile(`"(agentd_[a-z0-9_]+)"`)
	alertDefined = regexp.MustCompile(`(?m)^\s*- alert: (\w+)$`)
	runbookOf    = regexp.MustCompile(`(?m)^\s*runbook: docs/runbook\.md#(\w+)$`)
)

// Dashboards, alert rules and the documents name metrics that exist, and each rule has
// a section of the runbook.
func TestMonitoringKnowsTheMetrics(t *testing.T) {
	t.Parallel()
	made := map[string]bool{}
	err := filepath.WalkDir("../../internal", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, m := range metricMade.FindAllStringSubmatch(read(t, path), -1) {
			made[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"packaging/monitoring/agentd.json", "packaging/monitoring/alerts.yaml", "packaging/monitoring/alerts_test.yaml",
		"docs/operations.md", "docs/runbook.md", "packaging/helm/agentd/values.yaml",
	} {
		for _, name := range metricUsed.FindAllString(read(t, "../../"+path), -1) {
			base := name
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				base = strings.TrimSuffix(base, suffix)
			}
			if !made[name] && !made[base] {
				t.Errorf("%s: there is no metric %s", path, name)
			}
		}
	}
	rules, runbook := read(t, "../../packaging/monitoring/alerts.yaml"), read(t, "../../docs/runbook.md")
	alerts, linked := alertDefined.FindAllStringSubmatch(rules, -1), runbookOf.FindAllStringSubmatch(rules, -1)
	if len(alerts) == 0 || len(linked) != len(alerts) {
		t.Fatalf("%d alerts, %d links to the runbook", len(alerts), len(linked))
	}
	for i, alert := range alerts {
		if linked[i][1] != strings.ToLower(alert[1]) || !strings.Contains(runbook, "\n## "+alert[1]+"\n") {
			t.Errorf("%s needs a section of its own in docs/runbook.md, and a link to it", alert[1])
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
