package cli

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // for the goldens
	os.Unsetenv("NO_COLOR")
	goleak.VerifyTestMain(m)
}
