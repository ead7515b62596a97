package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

type auditListCommand struct {
	listing
	Action string `placeholder:"ACTION" help:"Only this action, as agent.created."`
	Since  string `placeholder:"TIME" help:"Only after this: a time as 2026-09-10T12:00:00Z, or how long ago, as 90m or 24h."`
}

// Run implements the command.
func (cmd *auditListCommand) Run(s *server) error {
	from, err := sinceParameter(s.now(), cmd.Since)
	if err != nil {
		return err
	}
	type entry struct {
		Action     string    `json:"action"`
		UserID     string    `json:"actor_user_id"`
		Method     string    `json:"method"`
		TargetType string    `json:"target_type"`
		TargetID   string    `json:"target_id"`
		IP         string    `json:"ip_address"`
		Timestamp  time.Time `json:"timestamp"`
	}
	return list[entry]{
		path: "/api/v1/admin/audit", query: query("action", cmd.Action, "from", from), limit: cmd.Limit,
		empty:   "Nothing is in the audit log.",
		heading: []string{"WHEN", "ACTION", "TARGET", "~BY", "METHOD", "FROM"},
		row: func(e entry) []string {
			return []string{formatTime(s.now(), e.Timestamp), e.Action, strings.TrimSpace(e.TargetType + " " + e.TargetID), e.UserID, e.Method, e.IP}
		},
	}.show(s)
}

// sinceParameter returns the value of --since as the API takes it; "" for none.
func sinceParameter(now time.Time, value string) (string, error) {
	if value == "" {
		return "", nil
	}
	t, err := since(now, value)
	return t.UTC().Format(time.RFC3339Nano), err
}

type auditExportCommand struct {
	remote
	After string `placeholder:"CURSOR" help:"Continue after this: the cursor of the last line that you have."`
	Since string `placeholder:"TIME" help:"Only after this: a time as 2026-09-10T12:00:00Z, or how long ago, as 90m or 24h."`
	Limit int    `default:"0" placeholder:"N" help:"How many entries at most; 0: all."`
	File  string `placeholder:"FILE" help:"File that the lines are appended to. Left out: the standard output."`
}

// exportRequest is how many entries one request asks for.
const exportRequest = 10_000

// Validate implements a hook of kong.
func (cmd *auditExportCommand) Validate() error {
	if cmd.Limit < 0 {
		return fmt.Errorf("--limit is %d and must be 0 (all) or more", cmd.Limit)
	}
	return nil
}

// Run implements the command.
func (cmd *auditExportCommand) Run(s *server) error {
	from, err := sinceParameter(s.now(), cmd.Since)
	if err != nil {
		return err
	}
	return exporting{
		path: "/api/v1/admin/audit/export", noun: "entries", query: query("from", from), after: cmd.After, limit: cmd.Limit, file: cmd.File,
	}.run(s)
}

// exporting is an export of lines of JSON, each with its cursor.
type exporting struct {
	path  string
	query url.Values
	noun  string // of the lines: entries
	after string
	limit int    // 0: all
	file  string // "": the standard output
}

// run writes the lines. Only whole ones are written, so what was written can always be
// continued.
func (x exporting) run(s *server) (err error) {
	out := s.stdout
	if x.file != "" {
		file, err := x.open()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out = file
	}
	e := &export{server: s, out: out, after: x.after}
	for more := true; more && err == nil; {
		n := exportRequest
		if x.limit > 0 {
			n = min(n, x.limit-e.count)
		}
		x.query.Set("limit", strconv.Itoa(n))
		if e.after != "" {
			x.query.Set("after", e.after)
		}
		var got int
		got, err = e.copy(x.path + "?" + x.query.Encode())
		more = got == n && (x.limit == 0 || e.count < x.limit)
	}
	if e.after != "" {
		s.note("%d %s. Continue with --after %s", e.count, x.noun, e.after)
	}
	if s.Err() != nil { // interrupted; the note says how to continue
		return nil
	}
	return err
}

// open opens the file. What it has is not repeated, so that needs the cursor.
func (x exporting) open() (*os.File, error) {
	file, err := os.OpenFile(x.file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() > 0 && x.after == "" {
		err = usageError("--file %s has lines already: continue it with --after and the cursor of its last line, or name another file", x.file)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// export is the state of an export.
type export struct {
	*server

	out   io.Writer
	after string // cursor of the last line that was written
	count int
}

// copy writes the lines of one answer and returns their number.
func (e *export) copy(path string) (n int, err error) {
	res, err := e.Send(e, http.MethodGet, path, nil, nil)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	for lines := bufio.NewReader(res.Body); ; n++ {
		line, err := lines.ReadBytes('\n')
		switch {
		case err == io.EOF && len(line) == 0:
			return n, nil
		case err != nil:
			return n, fmt.Errorf("the answer was cut off: %w", errors.Join(err, io.ErrUnexpectedEOF))
		}
		var entry struct {
			Cursor string `json:"cursor"`
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			return n, fmt.Errorf("a line of the export cannot be read: %w", err)
		}
		if _, err := e.out.Write(line); err != nil {
			return n, err
		}
		e.after = entry.Cursor
		e.count++
	}
}
