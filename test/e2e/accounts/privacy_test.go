package accounts

import (
	"archive/zip"
	"bytes"
	"io"
	"mime/multipart"
	"slices"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/base/authz"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

const (
	accessPath  = "/api/v1/data-subject/access"
	erasurePath = "/api/v1/data-subject/erasure"
)

// unzip returns the files of an archive by their names.
func unzip(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(text)
	}
	return files
}

// upload uploads a file and returns its ID.
func upload(n *apptest.Server, name, content string) string {
	n.T.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("file", name)
	if err != nil {
		n.T.Fatal(err)
	}
	io.WriteString(part, content)
	w.Close()
	r := n.SendHeaders("POST", "/api/v1/files", b.String(), "Authorization", "Bearer "+n.Key, "Content-Type", w.FormDataContentType())
	return r.JSON["file_id"].(string)
}

// whats returns what reasons are about.
func whats(reasons any) (all []string) {
	for _, r := range reasons.([]any) {
		all = append(all, r.(object)["what"].(string))
	}
	return all
}

// A member's data is found wherever it is, handed out whole, and erased but for what the
// answer names; that of others stays.
func TestDataSubjects(t *testing.T) {
	t.Parallel()
	apptest.EachDatabase(t, func(t *testing.T, adjust func(*config.Config)) {
		n := apptest.Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "understood"})), adjust)
		tenant, _ := n.Me()
		a := n.Admin()
		grant := a.CreateKey(tenant, authz.Developer, "*")
		ada, id := n.WithKey(string(grant.RawKey)), grant.UserID
		a.Exec(`UPDATE users SET name = 'Ada', email = 'ada@example.com' WHERE user_id = ?`, id)
		agent := n.CreateAgent(object{"name": "helper"})
		ada.CreateAgent(object{"name": "hers"})

		file := upload(ada, "note.txt", "the note of Ada")
		alone := ada.StartRun(agent, "only Ada says this", object{"input": object{"message": "only Ada says this", "file_ids": []string{file}}})
		ada.WaitRun(alone)
		a.SaveArtifact(tenant, alone, "result.txt")
		talk := ada.CreateSession(agent, nil)
		told := ada.SendMessage(talk, "Ada talks alone")
		ada.WaitRun(told)
		shared := n.CreateSession(agent, nil)
		theirs := n.SendMessage(shared, "the owner asks")
		n.WaitRun(theirs)
		in := ada.SendMessage(shared, "Ada joins")
		ada.WaitRun(in)
		other := n.StartRun(agent, "the owner works", nil)
		n.WaitRun(other)
		ada.Expect(200, "PUT", "/api/v1/runs/"+other+"/feedback", object{"message_id": "reply", "reaction": "up", "reason": "Ada likes it"})

		path := accessPath + "?subject_id=" + id
		about := n.Expect(200, "GET", path, nil)
		counts, ids := about["counts"].(object), about["ids"].(object)
		if counts["runs"] != 3.0 || counts["sessions"] != 1.0 || counts["files"] != 1.0 || counts["artifacts"] != 1.0 || counts["run_feedback"] != 1.0 ||
			about["kind"] != "member" || about["account"].(object)["email"] != "ada@example.com" {
			t.Errorf("%v", about)
		}
		if runs := ids["runs"].([]any); !slices.Contains(runs, any(alone)) || !slices.Contains(runs, any(told)) || !slices.Contains(runs, any(in)) {
			t.Errorf("%v", runs)
		}
		archive := n.Do("GET", path+"&format=zip", nil)
		files := unzip(t, archive.Body)
		for name, has := range map[string]string{
			"about.json": id, "runs.ndjson": "only Ada says this", "sessions.ndjson": talk, "run_feedback.ndjson": "Ada likes it",
			"files/" + file + "/note.txt": "the note of Ada", "users.ndjson": "ada@example.com", "run_steps.ndjson": "understood", "audit_log.ndjson": "agent.created",
		} {
			if !strings.Contains(files[name], has) {
				t.Errorf("%s of the archive has no %q: %.300s", name, has, files[name])
			}
		}
		for name, text := range files {
			if strings.Contains(text, "the owner works") || strings.Contains(text, string(grant.RawKey)) {
				t.Errorf("%s has what is not Ada's", name)
			}
		}

		// Erasing asks for an admin, for the person, and for no legal hold.
		ada.Expect(403, "GET", path, nil)
		ada.Expect(403, "POST", erasurePath, object{"subject_id": id})
		n.Expect(404, "POST", erasurePath, object{"subject_id": "0199a3b0-0000-7000-8000-000000000000"})
		n.Expect(422, "POST", erasurePath, object{"subject_id": id, "confirm": "another"})
		n.Expect(422, "GET", accessPath, nil)
		_, others := n.CreateTenant(object{"name": "Others"})
		others.Expect(404, "GET", path, nil)
		others.Expect(404, "POST", erasurePath, object{"subject_id": id})
		dry := n.Expect(200, "POST", erasurePath, object{"subject_id": id, "dry_run": true})
		if dry["status"] != "dry_run" || dry["erased"].(object)["runs"] != 3.0 || dry["erased"].(object)["files"] != 2.0 {
			t.Errorf("%v", dry)
		}
		n.Expect(200, "GET", "/api/v1/runs/"+alone, nil)
		settings := "/api/v1/admin/tenants/" + tenant + "/settings"
		n.Expect(200, "PATCH", settings, object{"legal_hold": true})
		n.Do("POST", erasurePath, object{"subject_id": id}).IsProblem(t, 423, "LEGAL_HOLD")
		for _, path := range []string{"/api/v1/sessions/" + talk, "/api/v1/agents/" + agent, "/api/v1/files/" + file} {
			apptest.Eventually(t, func() bool { return n.Do("DELETE", path, nil).StatusCode == 423 })
		}
		n.Expect(200, "PATCH", settings, object{"legal_hold": false})

		done := n.Expect(200, "POST", erasurePath, object{"subject_id": id, "confirm": true})
		erased := done["erased"].(object)
		if done["status"] != "completed" || erased["runs"] != 3.0 || erased["sessions"] != 1.0 || erased["files"] != 2.0 || erased["feedback"] != 1.0 {
			t.Errorf("%v", done)
		}
		if kept := whats(done["kept"]); !slices.Contains(kept, "audit_log") || !slices.Contains(kept, "users") || slices.Contains(kept, "runs") {
			t.Errorf("%v", kept)
		}
		for _, gone := range []string{"/api/v1/runs/" + alone, "/api/v1/runs/" + told, "/api/v1/runs/" + in, "/api/v1/sessions/" + talk, "/api/v1/files/" + file} {
			n.Expect(404, "GET", gone, nil)
		}
		n.Expect(200, "GET", "/api/v1/runs/"+other, nil)
		rest := n.Do("GET", "/api/v1/sessions/"+shared, nil)
		if rest.StatusCode != 200 || !bytes.Contains(rest.Body, []byte("the owner asks")) || bytes.Contains(rest.Body, []byte("Ada joins")) {
			t.Errorf("%d %s", rest.StatusCode, rest.Body)
		}
		n.WaitRun(n.SendMessage(shared, "and goes on"))
		for _, table := range a.CompanyTables() {
			for _, row := range a.Query(`SELECT * FROM ` + table) {
				for column, value := range row {
					if text, ok := value.(string); ok && (strings.Contains(text, "only Ada says") || strings.Contains(text, "Ada talks") || strings.Contains(text, "Ada likes")) {
						t.Errorf("%s.%s still has what Ada said: %.200s", table, column, text)
					}
				}
			}
		}
		entries := n.Expect(200, "GET", "/api/v1/admin/audit/"+id+"?type=user", nil)["entries"].([]any)
		if !slices.ContainsFunc(entries, func(e any) bool { return e.(object)["action"] == "data_subject.erasure" }) {
			t.Errorf("%v", entries)
		}
		if v := n.Expect(200, "GET", "/api/v1/governance/ledger/verify", nil); v["valid"] != true {
			t.Errorf("%v", v)
		}
		// Once more it changes nothing, also after the member was removed.
		n.Expect(200, "DELETE", "/api/v1/users/"+id, nil)
		again := n.Expect(200, "POST", erasurePath, object{"subject_id": id})
		if again["status"] != "completed" || again["erased"].(object)["runs"] != 0.0 {
			t.Errorf("%v", again)
		}
	})
}

// A run that is under way is cancelled and erased, with what the agent remembers of it.
func TestErasureDuringARun(t *testing.T) {
	t.Parallel()
	save := modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "1", Name: "memory_save", Arguments: `{"content":"Ada's gate code is blue"}`}}}
	n := apptest.Start(t, modeltest.New(t, modeltest.Script(save), modeltest.Default(modeltest.Answer{HangFirst: true})))
	agent := n.CreateAgent(object{"built_in_tools": []string{"memory_save"}})
	memories := "/api/v1/agents/" + agent + "/memory"
	tenant, _ := n.Me()
	grant := n.Admin().CreateKey(tenant, authz.Developer, "*")
	ada, id := n.WithKey(string(grant.RawKey)), grant.UserID
	run := ada.StartRun(agent, "remember the gate", nil)
	apptest.Eventually(t, func() bool { return n.Expect(200, "GET", memories, nil)["total"] == 1.0 })
	if about := n.Expect(200, "GET", accessPath+"?subject_id="+id, nil); about["counts"].(object)["memory"] != 1.0 {
		t.Errorf("%v", about)
	}
	files := unzip(t, n.Do("GET", accessPath+"?subject_id="+id+"&format=zip", nil).Body)
	if !strings.Contains(files["memory.ndjson"], "gate code is blue") {
		t.Errorf("%v", files)
	}
	done := n.Expect(200, "POST", erasurePath, object{"subject_id": id})
	if erased := done["erased"].(object); done["status"] != "completed" || erased["runs"] != 1.0 || erased["memory"] != 1.0 {
		t.Errorf("%v", done)
	}
	n.Expect(404, "GET", "/api/v1/runs/"+run, nil)
	if left := n.Expect(200, "GET", memories, nil); left["total"] != 0.0 {
		t.Errorf("%v", left)
	}
}
