package contract

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/ident"
)

// A path answers the methods of its operations; others are 405 with Allow.
func TestUnservedMethods(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	n := apptest.Start(t, nil)
	served := map[string][]string{}
	for _, op := range contracttest.Operations(n) {
		served[op.Path] = append(served[op.Path], op.Method)
	}
	for _, path := range []string{"/healthz", "/readyz", "/health", "/health/live", "/health/ready", "/metrics", "/api/v1/openapi.json"} {
		served[path] = []string{"GET"}
	}
	for path := range served {
		methods := alsoServed(served, path)
		target := contracttest.Parameter.ReplaceAllLiteralString(path, ident.New())
		for other, more := range served { // /things/all is also a /things/{thingId}
			pattern := regexp.MustCompile("^" + contracttest.Parameter.ReplaceAllLiteralString(other, "[^/]+") + "$")
			if path != other && pattern.MatchString(path) {
				methods = append(slices.Clone(methods), more...)
			}
		}
		allow := append(slices.Clone(methods), "OPTIONS")
		if slices.Contains(methods, "GET") {
			allow = append(allow, "HEAD")
		}
		slices.Sort(allow)
		allow = slices.Compact(allow)
		allowed := func(r apptest.Reply) []string {
			names := strings.Split(r.Header.Get("Allow"), ", ")
			slices.Sort(names)
			return names
		}
		for _, method := range append(slices.Clone(apptest.Methods), "TRACE", "BREW") {
			if slices.Contains(methods, method) {
				continue
			}
			r := n.SendHeaders(method, target, "", "Authorization", "Bearer "+n.Key)
			apptest.CheckCode(t, r, 405, "METHOD_NOT_ALLOWED")
			if diff := cmp.Diff(allow, allowed(r)); diff != "" {
				t.Errorf("%s %s: Allow (-want +got):\n%s", method, path, diff)
			}
		}
		r := n.SendHeaders("OPTIONS", target, "")
		apptest.CheckHeaders(t, r)
		if diff := cmp.Diff(allow, allowed(r)); diff != "" || r.StatusCode != 204 || len(r.Body) > 0 {
			t.Errorf("OPTIONS %s: %d %s\n%s", path, r.StatusCode, r.Body, diff)
		}
	}
}

// alsoServed returns the methods of a path, including those of patterns that it
// matches: a literal path may also be an operation on a resource of that name.
func alsoServed(served map[string][]string, path string) []string {
	methods := slices.Clone(served[path])
	own := strings.Split(path, "/")
	for pattern, more := range served {
		other := strings.Split(pattern, "/")
		fits := pattern != path && len(other) == len(own)
		for i := 0; fits && i < len(own); i++ {
			fits = other[i] == own[i] || strings.HasPrefix(other[i], "{") && !strings.HasPrefix(own[i], "{")
		}
		if fits {
			methods = append(methods, more...)
		}
	}
	slices.Sort(methods)
	return slices.Compact(methods)
}
