package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
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

// Run implements the command. Only whole lines are written, so what was written can
// always be continued.
func (cmd *auditExportCommand) Run(s *server) (err error) {
	from, err := sinceParameter(s.now(), cmd.Since)
	if err != nil {
		return err
	}
	out := s.stdout
	if cmd.File != "" {
		file, err := cmd.open()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out = file
	}
	e := &export{server: s, out: out, after: cmd.After}
	for more := true; more && err == nil; {
		n := exportRequest
		if cmd.Limit > 0 {
			n = min(n, cmd.Limit-e.count)
		}
		var got int
		got, err = e.copy("/api/v1/admin/audit/export?" + query("after", e.after, "from", from, "limit", strconv.Itoa(n)).Encode())
		more = got == n && (cmd.Limit == 0 || e.count < cmd.Limit)
	}
	if e.after != "" {
		s.note("%d entries. Continue with --after %s", e.count, e.after)
	}
	if s.Err() != nil { // interrupted; the note says how to continue
		return nil
	}
	return err
}

// open opens the file. What it has is not repeated, so that needs the cursor.
func (cmd *auditExportCommand) open() (*os.File, error) {
	file, err := os.OpenFile(cmd.File, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() > 0 && cmd.After == "" {
		err = usageError("--file %s has lines already: continue it with --after and the cursor of its last line, or name another file", cmd.File)
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
