package egress_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agentd/internal/base/fault"
	"agentd/internal/kernel/egress"
)

var errRules = errors.New("the rules cannot be read")

func TestCheckNew(t *testing.T) {
	t.Parallel()
	at := func(urls ...string) (all []egress.Address) {
		for i, url := range urls {
			all = append(all, egress.Address{Field: string(rune('a' + i)), URL: url})
		}
		return all
	}
	for name, test := range map[string]struct {
		stored, sent []egress.Address
		asked        []string
		fields       []string
		err          error
	}{
		"nothing":      {},
		"new":          {sent: at("good"), asked: []string{"acme good"}},
		"unchanged":    {stored: at("bad"), sent: at("bad")},
		"another path": {stored: at("x", "bad"), sent: at("bad")},
		"changed":      {stored: at("bad 1"), sent: at("bad 2"), asked: []string{"acme bad 2"}, fields: []string{"a"}},
		"every one":    {sent: at("bad 1", "good", "bad 2"), asked: []string{"acme bad 1", "acme bad 2", "acme good"}, fields: []string{"a", "c"}},
		"failure":      {sent: at("bad", "fails"), asked: []string{"acme bad", "acme fails"}, err: errRules},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var asked []string
			check := egress.CheckFunc(func(_ context.Context, tenant, url string) error {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, tenant+" "+url)
				switch {
				case url == "fails":
					return errRules
				case strings.HasPrefix(url, "bad"):
					return fault.New(fault.Invalid, "", "It is inside.")
				}
				return nil
			})
			err := check.CheckNew(t.Context(), "acme", test.stored, test.sent)
			var fields []string
			if fault.Is(err, fault.Invalid) {
				for _, f := range fault.From(err).Fields {
					if f.Message != "It is inside." {
						t.Errorf("%s: %q", f.Field, f.Message)
					}
					fields = append(fields, f.Field)
				}
			} else if !errors.Is(err, test.err) {
				t.Errorf("error %v, want %v", err, test.err)
			}
			if diff := cmp.Diff(test.fields, fields); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.asked, asked, cmpopts.SortSlices(strings.Compare), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
	if err := egress.CheckFunc(nil).CheckNew(t.Context(), "acme", nil, at("bad")); err != nil {
		t.Errorf("without a check: %v", err)
	}
}
