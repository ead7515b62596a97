//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Protect keeps other processes of the same user from reading the memory and
// the environment of this one: it makes the process one that can neither be
// dumped nor traced, empties the environment that the kernel shows in /proc,
// and blots out secrets among the arguments that it shows there. The process's
// own copy of its environment stays.
func Protect(secrets []string) error {
	return errors.Join(blotOut(secrets), unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// Fields of /proc/self/stat after the command's name, which may hold spaces
// (proc_pid_stat(5)).
const (
	argStart = 48 - 3
	argEnd   = 49 - 3
	envStart = 50 - 3
	envEnd   = 51 - 3
)

func blotOut(secrets []string) error {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= envEnd {
		return fmt.Errorf("/proc/self/stat has %d fields", len(fields))
	}
	var at [envEnd + 1]int64
	for _, i := range []int{argStart, argEnd, envStart, envEnd} {
		if at[i], err = strconv.ParseInt(fields[i], 10, 64); err != nil {
			return err
		}
	}
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	args := make([]byte, at[argEnd]-at[argStart])
	if _, err := memory.ReadAt(args, at[argStart]); err != nil {
		return err
	}
	for _, s := range secrets {
		args = blot(args, s)
	}
	_, err = memory.WriteAt(args, at[argStart])
	_, err2 := memory.WriteAt(make([]byte, at[envEnd]-at[envStart]), at[envStart])
	return errors.Join(err, err2)
}

// shortest is the length below which a value is no secret worth the risk: the
// arguments of a Go program are this very memory, and a short value may be
// another argument's too.
const shortest = 8

// blot overwrites a secret that is an argument, or the value of a flag.
func blot(args []byte, secret string) []byte {
	if len(secret) < shortest {
		return args
	}
	for _, before := range []string{"=", "\x00"} {
		args = bytes.ReplaceAll(args, []byte(before+secret+"\x00"), []byte(before+strings.Repeat("x", len(secret))+"\x00"))
	}
	return args
}
