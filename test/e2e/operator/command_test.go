package operator

import (
	"strings"
	"testing"

	"agentd/internal/app/apptest"
)

// Commands run in workspaces once the operator allows their programs, and no longer (rule
// D18-run-command).
func TestRunCommand(t *testing.T) {
	apptest.SkipUnderRace(t) // whose memory is more than programs may have
	t.Parallel()
	n := apptest.Start(t, nil)
	workspace := "/api/v1/workspaces/" + n.Expect(201, "POST", "/api/v1/workspaces", object{})["workspace_id"].(string)
	n.Expect(201, "PUT", workspace+"/files?path=docs/notes.txt", "one\ntwo\n", "Content-Type", "text/plain")
	run := func(command string) apptest.Reply {
		return n.Do("POST", workspace+"/run-command", object{"command": command, "workdir": "docs", "timeout_sec": 20})
	}
	run("wc -l notes.txt").IsProblem(t, 403, "FEATURE_DISABLED")
	put(n, "run-command", object{"enabled": true, "allowed_commands": []string{"wc", "sh"}, "max_timeout_sec": 20, "memory_mib": 256})
	first := run("wc -l notes.txt")
	if first.StatusCode == 501 {
		first.IsProblem(t, 501, "SANDBOX_UNAVAILABLE")
		t.Skip("this machine cannot confine programs")
	}
	if first.StatusCode != 200 || first.JSON["output"] != "2 notes.txt\n" || first.JSON["exit_code"] != 0.0 {
		t.Fatalf("%d %s", first.StatusCode, first.Body)
	}
	made := run(`sh -c 'sort -r notes.txt >sorted.txt && rm notes.txt; env; ls /; exit 4'`)
	if made.StatusCode != 200 || made.JSON["exit_code"] != 4.0 || strings.Contains(string(made.Body), "AGENTD") {
		t.Errorf("%d %s", made.StatusCode, made.Body)
	}
	for _, list := range []string{"changed_files", "deleted_files"} {
		if len(made.JSON[list].([]any)) != 1 {
			t.Errorf("%s: %v", list, made.JSON[list])
		}
	}
	if r := n.Do("GET", workspace+"/files/content?path=docs/sorted.txt", nil); string(r.Body) != "two\none\n" {
		t.Errorf("%d %s", r.StatusCode, r.Body)
	}
	n.Expect(404, "GET", workspace+"/files/content?path=docs/notes.txt", nil)
	if r := run("cat notes.txt"); r.StatusCode != 422 || !strings.Contains(string(r.Body), "wc, sh") {
		t.Errorf("a program that is not allowed: %d %s", r.StatusCode, r.Body)
	}
	if r := n.Do("POST", workspace+"/run-command", object{"command": "wc", "timeout_sec": 21}); r.StatusCode != 422 {
		t.Errorf("too long: %d %s", r.StatusCode, r.Body)
	}
	if r := n.Do("POST", workspace+"/run-command", object{"command": "sh -c 'sleep 100'", "timeout_sec": 1}); r.JSON["timed_out"] != true {
		t.Errorf("it does not end: %d %s", r.StatusCode, r.Body)
	}
	if r := run("sh -c 'tail /dev/zero'"); r.StatusCode == 200 && r.JSON["exit_code"] == 0.0 {
		t.Errorf("more memory than it may have: %s", r.Body)
	}
	for body, key := range map[string]string{
		`{"allowed_commands":["a b"]}`: "allowed_commands[0]", `{"allowed_commands":["wc","../sh"]}`: "allowed_commands[1]", `{"memory_mib":1}`: "memory_mib",
	} {
		if r := n.Do("PUT", configPath+"run-command", body); r.StatusCode != 422 || !strings.Contains(string(r.Body), key) {
			t.Errorf("%s is answered %d %s", body, r.StatusCode, r.Body)
		}
	}
	put(n, "run-command", object{"enabled": false})
	run("wc notes.txt").IsProblem(t, 403, "FEATURE_DISABLED")
}
