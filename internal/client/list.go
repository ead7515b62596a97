package client

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// pageSize is the maximum size of a page.
const pageSize = 100

// List returns the items of a list, and requests its pages as they are needed.
// most is the largest number that the caller will read; 0: all. An error ends the
// sequence.
func List[T any](ctx context.Context, c *Client, path string, query url.Values, most int) iter.Seq2[Doc[T], error] {
	query = maps.Clone(query)
	if query == nil {
		query = url.Values{}
	}
	if !query.Has("limit") {
		size := pageSize
		if most > 0 {
			size = min(most, pageSize)
		}
		query.Set("limit", strconv.Itoa(size))
	}
	return func(yield func(Doc[T], error) bool) {
		for {
			var p page
			if err := c.Do(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &p); err != nil {
				yield(Doc[T]{}, err)
				return
			}
			for _, item := range p.items() {
				var doc Doc[T]
				if err := json.Unmarshal(item, &doc); err != nil {
					yield(doc, err)
					return
				}
				if !yield(doc, nil) {
					return
				}
			}
			var cursor string
			if json.Unmarshal(p["cursor"], &cursor) != nil || cursor == "" {
				return // absent or null: the last page
			}
			query.Set("cursor", cursor)
		}
	}
}

// page is a page of a list. Most lists call their items "items", the others by
// their kind.
type page map[string]jsontext.Value

func (p page) items() (items []jsontext.Value) {
	named, ok := p["items"]
	if !ok {
		for _, name := range slices.Sorted(maps.Keys(p)) {
			if p[name].Kind() == '[' {
				named = p[name]
				break
			}
		}
	}
	if len(named) > 0 {
		_ = json.Unmarshal(named, &items) // null, or no list: it has no items
	}
	return items
}
