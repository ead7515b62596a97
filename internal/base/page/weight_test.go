package page

import "testing"

func TestPagesAreBounded(t *testing.T) {
	t.Parallel()
	const third = maxBytes / 3
	for name, c := range map[string]struct {
		sizes []int
		limit int
		want  int
		more  bool
	}{
		"empty":            {nil, 3, 0, false},
		"few":              {[]int{1, 1}, 3, 2, false},
		"as_many_as_asked": {[]int{1, 1, 1}, 3, 3, false},
		"one_more":         {[]int{1, 1, 1, 1}, 3, 3, true},
		"full":             {[]int{third, third, third}, 9, 3, false},
		"over":             {[]int{third, third, third, third}, 9, 3, true},
		"large_one":        {[]int{2 * maxBytes}, 9, 1, false},
		"large_first":      {[]int{2 * maxBytes, 0}, 9, 1, true},
		"large_second":     {[]int{1, 2 * maxBytes}, 9, 1, true},
		"large_last":       {[]int{2 * maxBytes, 2 * maxBytes}, 1, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			same := func(n int) int { return n }
			items, more := Cut(c.sizes, c.limit, same)
			if len(items) != c.want || more != c.more {
				t.Errorf("%d items, more %t; want %d, %t", len(items), more, c.want, c.more)
			}
			// A reader that stops when the page is full leads to the same page.
			var w Weight
			for i, size := range c.sizes {
				if w.Full(size) {
					if items, more := Cut(c.sizes[:i+1], c.limit, same); len(items) != c.want || more != c.more {
						t.Errorf("of what was read, %d items, more %t", len(items), more)
					}
					break
				}
			}
		})
	}
}
