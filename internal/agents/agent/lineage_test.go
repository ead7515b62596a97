package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/schema"
)

// Metadata are the owner's: what is no lineage is taken for none.
func TestLineage(t *testing.T) {
	t.Parallel()
	const parent = "01997c1e-6a5e-7c53-9d6c-3a1d5a0b7f10"
	for metadata, want := range map[string]Lineage{
		"":   {},
		`{}`: {},
		`{"parent_agent_id":"` + parent + `","spawn_depth":2,"spawned_by":"u","spawned_by_run":"r","role":"x"}`: {parent, 2, "u", "r", "x"},
		`{"parent_agent_id":"` + parent + `"}`:                                   {ParentID: parent, Depth: 1},
		`{"parent_agent_id":"` + parent + `","spawn_depth":-9}`:                  {ParentID: parent, Depth: 1},
		`{"parent_agent_id":"` + parent + `","spawn_depth":"x"}`:                 {},
		`{"parent_agent_id":"` + parent + `","role":{"any":"thing"}}`:            {},
		`{"parent_agent_id":"somebody","spawn_depth":2}`:                         {},
		`{"parent_agent_id":7,"spawn_depth":2}`:                                  {},
		`{"spawn_depth":2,"role":"x"}`:                                           {},
		`{"parent_agent_id":"` + parent + `","spawn_depth":9223372036854775807}`: {ParentID: parent, Depth: 1<<63 - 1},
	} {
		g := &Agent{Config: Config{Metadata: schema.Object(metadata)}}
		if diff := cmp.Diff(want, g.Lineage()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", metadata, diff)
		}
	}
}
