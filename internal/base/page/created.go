package page

import (
	"time"

	"agentd/internal/base/fault"
)

// Created are the filters of a list by when its rows were created.
type Created struct {
	CreatedAfter  time.Time `query:"created_after" doc:"Only what was created at this date-time or later." filter:"created_at >= ?" index:"_created"`
	CreatedBefore time.Time `query:"created_before" doc:"Only what was created before this date-time." filter:"created_at < ?" index:"_created"`
}

// Check refuses a range that ends before it begins. An empty one is allowed.
func (c Created) Check() error {
	if c.CreatedAfter.IsZero() || c.CreatedBefore.IsZero() || !c.CreatedBefore.Before(c.CreatedAfter) {
		return nil
	}
	return fault.BadFields(
		fault.Field{Field: "created_after", Message: "must not be later than created_before"},
		fault.Field{Field: "created_before", Message: "must not be earlier than created_after"},
	)
}
