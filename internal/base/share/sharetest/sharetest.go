// Package sharetest tests services whose work takes [share.Places].
package sharetest

import (
	"testing"

	"agentd/internal/base/fault"
	"agentd/internal/base/share"
)

// Refuses tests that a company that has its share of two places, one for each
// company, is asked to retry, that another one does not wait for it, and that work
// succeeds afterwards. try does such work for the company.
func Refuses(t testing.TB, places *share.Places, company string, try func() error) {
	t.Helper()
	release, err := places.Acquire(t.Context(), company)
	if err != nil {
		t.Fatal(err)
	}
	if err := try(); !fault.Is(err, fault.Unavailable) || fault.From(err).RetryAfter == 0 {
		t.Errorf("beyond the company's share: %v", err)
	}
	elsewhere, err := places.Acquire(t.Context(), "another company")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere()
	release()
	if err := try(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
