package marketplace

import "agentd/internal/base/page"

// pager reads a page of a list of rows of type T, which callers see as V.
type pager[T, V any] struct {
	scope         page.Scope
	limit, cursor string // as the caller sent them
	list          func(page.Window) ([]T, error)
	id            func(*T) string // the position of a row
	view          func(*T) V
}

// read returns the items of the page, and the cursor of the next one; nil on the last page.
func (p *pager[T, V]) read(cursors *page.Cursors) (items []V, next *string, err error) {
	limit := page.Limit(p.limit, 20, 100)
	after, err := cursors.Open(p.scope, p.cursor)
	if err != nil {
		return nil, nil, err
	}
	found, err := p.list(page.Window{After: after, Limit: limit + 1})
	if err != nil {
		return nil, nil, err
	}
	if len(found) > limit {
		found = found[:limit]
		cursor := cursors.Seal(p.scope, p.id(&found[limit-1]))
		next = &cursor
	}
	items = make([]V, len(found))
	for i := range found {
		items[i] = p.view(&found[i])
	}
	return items, next, nil
}
