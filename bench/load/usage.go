package load

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process has used since it started.
type Usage struct {
	CPU      time.Duration
	Resident int64 // bytes, now
	Private  int64 // bytes of Resident that are no pages of files
	Peak     int64 // bytes, the most there ever were
}

// tick is the unit of CPU times in /proc, which Linux fixes.
const tick = 10 * time.Millisecond

// Of reads the usage of a process. It needs Linux.
func Of(pid int) (Usage, error) { return usageOf(pid) }

func usageOf(pid int) (Usage, error) {
	if pid == 0 {
		return Usage{}, nil
	}
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return Usage{}, err
	}
	// The name of the program, in parentheses, may hold anything.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return Usage{}, fmt.Errorf("%s/stat is too short", dir)
	}
	var u Usage
	for _, f := range fields[11:13] { // user and system time
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return Usage{}, err
		}
		u.CPU += time.Duration(n) * tick
	}
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return Usage{}, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kib, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		n, _ := strconv.ParseInt(kib, 10, 64)
		switch name {
		case "VmRSS":
			u.Resident = n << 10
		case "RssAnon":
			u.Private = n << 10
		case "VmHWM":
			u.Peak = n << 10
		}
	}
	return u, nil
}
