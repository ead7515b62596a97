package cli

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const auditExportPath = "GET /api/v1/admin/audit/export"

// auditExport serves an export of entries 1 to last, whose cursors are their numbers.
// cut ends the answer in the middle of the line of that entry.
func auditExport(last, cut int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		after, _ := strconv.Atoi(r.URL.Query().Get("after"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		w.Header().Set("Content-Type", "application/x-ndjson")
		for i := after + 1; i <= min(last, after+limit); i++ {
			line := fmt.Sprintf(`{"action":"agent.created","cursor":"%d"}`, i)
			if i == cut {
				io.WriteString(w, line[:10])
				http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
			io.WriteString(w, line+"\n")
		}
	}
}

func TestAuditExport(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	const last = exportRequest + 3
	a.handle(auditExportPath, auditExport(last, 0))
	r := a.shell.run("audit", "export", "--since", "24h")
	r.want(t, exitOK, fmt.Sprintf("%d entries. Continue with --after %d", last, last))
	if lines := strings.Split(strings.TrimSpace(r.stdout), "\n"); len(lines) != last || !strings.Contains(lines[last-1], fmt.Sprint(last)) {
		t.Errorf("%d lines to %s", len(lines), lines[len(lines)-1])
	}
	if a.count("GET /api/v1/admin/audit/export?") != 2 {
		t.Errorf("asked %v", a.asked)
	}
	r = a.shell.run("audit", "export", "--limit", "2", "--after", "5")
	r.want(t, exitOK, "2 entries. Continue with --after 7")
	if want := `{"action":"agent.created","cursor":"6"}` + "\n" + `{"action":"agent.created","cursor":"7"}` + "\n"; r.stdout != want {
		t.Errorf("stdout %q", r.stdout)
	}
	r = a.shell.run("audit", "export", "--after", fmt.Sprint(last))
	if r.want(t, exitOK, "0 entries."); r.stdout != "" {
		t.Errorf("stdout %q", r.stdout)
	}
	a.shell.run("audit", "export", "--limit=-1").want(t, exitUsage, "--limit is -1")
	a.shell.run("audit", "export", "--since", "yesterday").want(t, exitUsage, "--since is")
}

// What a cut answer left is whole lines, and the rest is appended to them.
func TestAuditExportContinues(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	file := filepath.Join(t.TempDir(), "audit.ndjson")
	a.handle(auditExportPath, auditExport(5, 4))
	a.shell.run("audit", "export", "--file", file).want(t, exitFailure, "cut off", "3 entries. Continue with --after 3")
	a.handle(auditExportPath, auditExport(5, 0))
	a.shell.run("audit", "export", "--file", file).want(t, exitUsage, "has lines already", "--after")
	a.shell.run("audit", "export", "--file", file, "--after", "3").want(t, exitOK, "2 entries. Continue with --after 5")
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := range 5 {
		fmt.Fprintf(&want, "{\"action\":\"agent.created\",\"cursor\":\"%d\"}\n", i+1)
	}
	if string(got) != want.String() {
		t.Errorf("the file is %s", got)
	}
	a.handle(auditExportPath, status(422, `{"status":422,"detail":"The parameter after is not the cursor of an exported line.","code":"INVALID_CURSOR"}`))
	a.shell.run("audit", "export", "--after", "x").want(t, exitFailure, "not the cursor")
	a.handle(auditExportPath, status(200, "no line of JSON\n"))
	a.shell.run("audit", "export").want(t, exitFailure, "cannot be read")
}
