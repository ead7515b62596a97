package workhelper

import (
	"strings"
	"testing"
)

// The helper takes no file that leads out of its directory.
func TestFilesStayInside(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"../out", "/tmp/out", "a/../../out", ""} {
		if err := unpackFile(path, strings.NewReader("x")); err == nil {
			t.Errorf("%q was unpacked", path)
		}
	}
}
