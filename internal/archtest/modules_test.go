package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// leastVersions are the versions of modules below which a fault is known that a
// stranger can use. Tools that look up faults need a network; this needs none.
var leastVersions = map[string]struct{ version, fault string }{
	"golang.org/x/net":              {"v0.62.0", "pieces of text in a page are parsed in quadratic time"},
	"github.com/go-jose/go-jose/v4": {"v4.1.8", "an ECDSA signature of another curve than its algorithm's is accepted"},
}

func TestNoModuleHasAKnownFault(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	required := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\s*(?:require )?(\S+\.\S+) (v\S+)`).FindAllStringSubmatch(string(text), -1) {
		required[m[1]] = m[2]
	}
	if len(required) < 20 {
		t.Fatalf("go.mod requires only %v", required)
	}
	for module, least := range leastVersions {
		if has := required[module]; has != "" && slices.Compare(numbers(t, has), numbers(t, least.version)) < 0 {
			t.Errorf("%s %s is older than %s: %s", module, has, least.version, least.fault)
		}
	}
}

// numbers returns those of a version, v1.2.3.
func numbers(t *testing.T, version string) (all []int) {
	t.Helper()
	release, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "-")
	for part := range strings.SplitSeq(release, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			t.Fatalf("version %s: %v", version, err)
		}
		all = append(all, n)
	}
	return all
}
