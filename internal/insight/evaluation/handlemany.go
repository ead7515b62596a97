package evaluation

import (
	"cmp"
	"slices"
	"sync"
)

// casesOf returns cases by their number. Those that stand close to each other are read
// together.
func (d *drive) casesOf(all []Result) (map[int]*Case, error) {
	found := make(map[int]*Case, len(all))
	rest := slices.SortedFunc(slices.Values(all), func(a, b Result) int { return cmp.Compare(a.Seq, b.Seq) })
	for len(rest) > 0 {
		first, n := rest[0].Seq, 1
		for n < len(rest) && rest[n].Seq-first < caseSpan {
			n++
		}
		cases, err := d.Store.ListCases(d.ctx, d.r.TenantID, d.r.DatasetID, first, rest[n-1].Seq-first+1)
		if err != nil {
			return nil, err
		}
		for i := range cases {
			found[first+i] = &cases[i]
		}
		rest = rest[n:]
	}
	return found, nil
}

// each calls a function for 0 to n-1, so many at a time, and returns the first error.
func each(n, most int, do func(i int) error) error {
	var all sync.WaitGroup
	errs, slots := make([]error, n), make(chan struct{}, most)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(i)
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
