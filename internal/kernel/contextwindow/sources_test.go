package contextwindow_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/contextwindow"
	"agentd/internal/kernel/model"
)

// A summary has content of the sources of what it replaces, also where that is gone.
func TestSummaryHasSources(t *testing.T) {
	t.Parallel()
	messages := []model.Message{
		{Role: model.System, Text: "s"},
		{Role: model.User, Text: "u", Sources: []string{"sensor"}},
		{Role: model.Assistant, Text: "a"},
		{Role: model.Tool, Text: "later", Sources: []string{"mcp:x"}},
	}
	after := contextwindow.Apply(messages, contextwindow.Compaction{Messages: 2}, "short", "web")
	if diff := cmp.Diff([]string{"sensor", "web"}, after[1].Sources); diff != "" || !after[1].Summary {
		t.Errorf("%s: %+v", diff, after)
	}
	if diff := cmp.Diff([]string{"mcp:x", "sensor", "web"}, model.SourcesOf(after)); diff != "" {
		t.Error(diff)
	}
}
