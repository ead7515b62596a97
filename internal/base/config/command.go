package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Command is a program that tenants may run in the sandbox, and what they may
// set of it.
type Command struct {
	Name string `json:"name"` // what tenants call it; empty: Path
	Path string `json:"command"`

	Args       []string          `json:"args"`        // come before those of tenants
	Env        map[string]string `json:"env"`         // set by the operator
	TenantArgs []string          `json:"tenant_args"` // what an argument of a tenant may be; a * at the end matches any text
	TenantEnv  []string          `json:"tenant_env"`  // names of the variables that a tenant may set

	Read    []string      `json:"read"`    // files and directories that it may read, beside those of the system
	Network *bool         `json:"network"` // absent: it has one
	Limits  CommandLimits `json:"limits"`
}

// CommandLimits bound what a command may use. Zero means the default of the
// sandbox.
type CommandLimits struct {
	MemoryMiB  int `json:"memory_mib"`  // of one process
	CPUSeconds int `json:"cpu_seconds"` // of one process, in its life
	Processes  int `json:"processes"`   // with their threads
	Files      int `json:"files"`       // open in one process
	DiskMiB    int `json:"disk_mib"`    // of its directory, and of one file
}

// AllowsArg reports whether tenants may pass an argument.
func (c *Command) AllowsArg(arg string) bool {
	return slices.ContainsFunc(c.TenantArgs, func(pattern string) bool {
		prefix, wild := strings.CutSuffix(pattern, "*")
		return arg == pattern || wild && strings.HasPrefix(arg, prefix)
	})
}

// AllowsVariable reports whether tenants may set a variable.
func (c *Command) AllowsVariable(name string) bool { return slices.Contains(c.TenantEnv, name) }

// plainCommands returns the commands of MCPStdio, of which tenants may set
// nothing.
func (s Security) plainCommands() []Command {
	var all []Command
	for path := range strings.SplitSeq(s.MCPStdio, ",") {
		if path = strings.TrimSpace(path); path != "" {
			all = append(all, Command{Name: path, Path: path})
		}
	}
	return all
}

// Commands returns the commands of MCPStdio and those of the file
// MCPStdioCommands. It fails where the file cannot be read, or one of its
// commands cannot work.
func (s Security) Commands() ([]Command, error) {
	all := s.plainCommands()
	if s.MCPStdioCommands == "" {
		return all, nil
	}
	text, err := os.ReadFile(s.MCPStdioCommands)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	var more []Command
	if err := json.UnmarshalRead(bytes.NewReader(text), &more, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("must be a JSON list of commands: %w", at(text, err))
	}
	for i := range more {
		more[i].Name = cmp.Or(more[i].Name, more[i].Path)
	}
	return append(all, more...), errors.Join(checkCommands(more), checkNames(append(all, more...)))
}

// at adds the line to an error of JSON.
func at(text []byte, err error) error {
	offset := int64(-1)
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		offset = syntax.ByteOffset
	} else if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		offset = semantic.ByteOffset
	}
	if offset < 0 || offset > int64(len(text)) {
		return err
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(text[:offset], []byte("\n")), err)
}

func checkNames(all []Command) error {
	for i, c := range all {
		if slices.ContainsFunc(all[:i], func(other Command) bool { return other.Name == c.Name }) {
			return fmt.Errorf("two commands have the name %q; give one of them another name", c.Name)
		}
	}
	return nil
}

// ours are the variables that the sandbox sets, which no tenant may change.
var ours = []string{"PATH", "HOME", "TMPDIR"}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// checkCommands requires absolute paths of existing programs: a name to look up
// would be a different program under a different search path.
func checkCommands(all []Command) error {
	for _, c := range all {
		info, err := os.Stat(c.Path)
		switch {
		case !filepath.IsAbs(c.Path):
			return fmt.Errorf("%q is no absolute path", c.Path)
		case err != nil:
			return fmt.Errorf("cannot be used: %w", err)
		case info.IsDir() || info.Mode()&0o111 == 0:
			return fmt.Errorf("%s is no program", c.Path)
		}
		if err := c.check(); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}

func (c *Command) check() error {
	for name := range c.Env {
		if !variable.MatchString(name) {
			return fmt.Errorf("env: %q is no name of a variable", name)
		}
	}
	for _, name := range c.TenantEnv {
		if _, set := c.Env[name]; set || slices.Contains(ours, name) {
			return fmt.Errorf("tenant_env: %s is set already, and tenants cannot change it", name)
		}
		if !variable.MatchString(name) {
			return fmt.Errorf("tenant_env: %q is no name of a variable; write each name in full", name)
		}
	}
	if i := slices.IndexFunc(c.Read, func(path string) bool { return !filepath.IsAbs(path) || filepath.Clean(path) == "/" }); i >= 0 {
		return fmt.Errorf("read: %q is no absolute path below /", c.Read[i])
	}
	l := c.Limits
	if min(l.MemoryMiB, l.CPUSeconds, l.Processes, l.Files, l.DiskMiB) < 0 {
		return errors.New("limits: each must be 1 or more, or absent for the default")
	}
	return nil
}
