package resource_test

import (
	"fmt"

	"agentd/internal/kernel/resource"
)

func ExampleKind() {
	type Label struct {
		resource.Meta `json:"-"` // id, tenant, version, times

		Name  string `json:"name" required:"true" maxLength:"50"`
		Color string `json:"color" default:"grey"`
	}
	labels := resource.NewStore(resource.Kind[Label]{
		Name: "label", Noun: "Label", Path: "/api/v1/labels", IDField: "label_id", Tag: "Labels",
		Keys: []string{"labels"}, PageSize: 20, MaxPageSize: 100,
	}, resource.Deps{}) // in the composition root: the database, the outbox, cursors, a clock, the audit log
	for _, r := range resource.Routes(labels) {
		fmt.Println(r.Method, r.Path)
	}
	// Output:
	// POST /api/v1/labels
	// GET /api/v1/labels
	// GET /api/v1/labels/{labelId}
	// PATCH /api/v1/labels/{labelId}
	// DELETE /api/v1/labels/{labelId}
}
