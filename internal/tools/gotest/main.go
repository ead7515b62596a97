// Command gotest runs go test with the arguments given and summarizes its output:
// one line for each package while the tests run, the whole output of failed tests,
// and one line at the end.
//
// With GOTEST_SLOWEST=20 in the environment it also lists the 20 slowest tests.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

// run returns the exit code of go test.
func run(args []string, out io.Writer) int {
	began := time.Now()
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		return 2
	}
	r := newReport(out)
	if err := r.read(events); err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
	}
	err = cmd.Wait()
	slowest, _ := strconv.Atoi(os.Getenv("GOTEST_SLOWEST")) // unset is none
	r.finish(err == nil, time.Since(began), slowest)
	if err != nil {
		return max(1, cmd.ProcessState.ExitCode())
	}
	return 0
}

// event is a line that go test -json prints.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64

	ImportPath  string // of build output
	FailedBuild string // the package whose build failed this one
}

// read reads events until their end. Lines that are no events are printed as
// they are.
func (r *report) read(events io.Reader) error {
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Action == "" {
			fmt.Fprintln(r.out, lines.Text())
			continue
		}
		r.add(&e)
	}
	return lines.Err()
}
