package a2aserver

import (
	"context"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/teams/a2a"
)

// Bounds of a page of ListTasks.
const (
	pageSize    = 50
	maxPageSize = 100
	maxScanned  = 1000 // tasks that a page looks at to find those that were asked for
)

// list returns a page of tasks, newest first. A page has fewer than were asked for where
// the filters leave few of the tasks that it looked at.
func (c *call) list(ctx context.Context) (any, error) {
	size := min(max(c.PageSize, 0), maxPageSize)
	if size == 0 {
		size = pageSize
	}
	if c.PageToken != "" && !ident.Valid(c.PageToken) {
		return nil, &rpcError{Code: codeInvalidParams, Message: "The pageToken is not one of this endpoint."}
	}
	out := &sdk.ListTasksResponse{Tasks: []*sdk.Task{}, PageSize: size}
	after := c.PageToken
	for scanned := 0; scanned < maxScanned; {
		found, err := c.s.Tasks.List(ctx, c.who.TenantID, page.Window{After: after, Limit: maxPageSize})
		if err != nil {
			return nil, err
		}
		for i := range found {
			scanned++
			after = found[i].ID
			if !c.lists(&found[i]) {
				continue
			}
			out.Tasks = append(out.Tasks, taskV1(c.clip(&found[i])))
			if len(out.Tasks) == size {
				out.NextPageToken, out.TotalSize = after, len(out.Tasks)
				return out, nil
			}
		}
		if len(found) < maxPageSize {
			after = ""
			break
		}
	}
	out.NextPageToken, out.TotalSize = after, len(out.Tasks)
	return out, nil
}

// lists reports whether a task is one of those that were asked for.
func (c *call) lists(t *a2a.Task) bool {
	agent := c.agent()
	return (agent == "" || agent == t.AgentID) && (c.ContextID == "" || c.ContextID == t.ContextID) &&
		(c.Status == "" || c.Status == string(statesV1[t.Status]))
}
