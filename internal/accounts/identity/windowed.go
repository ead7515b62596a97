package identity

import "agentd/internal/base/page"

// maxPeople is the maximum number of users or invites on a page, and the number
// that is read at a time.
const maxPeople = 200

type pageIn struct {
	Limit  string `query:"limit" doc:"Items per page, 1 to 200. Default: all items."`
	Cursor string `query:"cursor"`
}

// windowed reads a list that is returned whole unless a limit or a cursor asks
// for a page. more is nil where no page was asked for.
func windowed[T any](c *page.Cursors, scope page.Scope, in *pageIn, id func(T) string,
	list func(after string, limit int) ([]T, error),
) (all []T, more *bool, cursor *string, err error) {
	after, err := c.Open(scope, in.Cursor)
	if err != nil {
		return nil, nil, nil, err
	}
	limit, paged := maxPeople, in.Limit != "" || in.Cursor != ""
	if paged {
		limit = page.Limit(in.Limit, maxPeople, maxPeople)
	}
	all = []T{}
	for {
		batch, err := list(after, limit+1)
		if err != nil {
			return nil, nil, nil, err
		}
		hasMore := len(batch) > limit
		all = append(all, batch[:min(limit, len(batch))]...)
		if hasMore {
			after = id(all[len(all)-1])
		}
		switch {
		case paged && hasMore:
			next := c.Seal(scope, after)
			return all, &hasMore, &next, nil
		case paged:
			return all, &hasMore, nil, nil
		case !hasMore:
			return all, nil, nil, nil
		}
	}
}
