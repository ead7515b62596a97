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

// told is a member who has told a company a few things.
type told struct {
	*apptest.Server // the owner

	admin                     *apptest.Admin
	ada                       *apptest.Server
	key                       string
	id, tenant, agent, file   string
	alone, talk, talked, join string // runs that are hers, and a session
	shared, other             string // a session and a run of the owner
}

func tell(t *testing.T, n *apptest.Server) *told {
	t.Helper()
	w := &told{Server: n, admin: n.Admin()}
	w.tenant, _ = n.Me()
	grant := w.admin.CreateKey(w.tenant, authz.Developer, "*")
	w.ada, w.id, w.key = n.WithKey(string(grant.RawKey)), grant.UserID, string(grant.RawKey)
	w.admin.Exec(`UPDATE users SET name = 'Ada', email = 'ada@example.com' WHERE user_id = ?`, w.id)
	w.agent = n.CreateAgent(object{"name": "helper"})
	w.ada.CreateAgent(object{"name": "hers"})

	w.file = upload(w.ada, "note.txt", "the note of Ada")
	w.alone = w.ada.StartRun(w.agent, "", object{"input": object{"message": "only Ada says this", "file_ids": []string{w.file}}})
	w.ada.WaitRun(w.alone)
	w.admin.SaveArtifact(w.tenant, w.alone, "result.txt")
	w.talk = w.ada.CreateSession(w.agent, nil)
	w.talked = w.ada.SendMessage(w.talk, "Ada talks alone")
	w.ada.WaitRun(w.talked)
	w.shared = n.CreateSession(w.agent, nil)
	n.WaitRun(n.SendMessage(w.shared, "the owner asks"))
	w.join = w.ada.SendMessage(w.shared, "Ada joins")
	w.ada.WaitRun(w.join)
	w.other = n.StartRun(w.agent, "the owner works", nil)
	n.WaitRun(w.other)
	w.ada.Expect(200, "PUT", "/api/v1/runs/"+w.other+"/feedback", object{"message_id": "reply", "reaction": "up", "reason": "Ada likes it"})
	return w
}

func (w *told) path() string { return accessPath + "?subject_id=" + w.id }

// checkAccess checks what is answered about Ada.
func (w *told) checkAccess(t *testing.T) {
	t.Helper()
	about := w.Expect(200, "GET", w.path(), nil)
	counts := about["counts"].(object)
	for kind, n := range map[string]float64{"runs": 3, "sessions": 1, "files": 1, "artifacts": 1, "run_feedback": 1} {
		if counts[kind] != n {
			t.Errorf("%s: %v, want %v", kind, counts[kind], n)
		}
	}
	if about["kind"] != "member" || about["account"].(object)["email"] != "ada@example.com" {
		t.Errorf("%v", about)
	}
	runs := about["ids"].(object)["runs"].([]any)
	for _, id := range []string{w.alone, w.talked, w.join} {
		if !slices.Contains(runs, any(id)) {
			t.Errorf("%s is not in %v", id, runs)
		}
	}
	files := unzip(t, w.Do("GET", w.path()+"&format=zip", nil).Body)
	for name, has := range map[string]string{
		"about.json": w.id, "runs.ndjson": "only Ada says this", "sessions.ndjson": w.talk, "run_feedback.ndjson": "Ada likes it",
		"files/" + w.file + "/note.txt": "the note of Ada", "users.ndjson": "ada@example.com", "run_steps.ndjson": "understood",
		"audit_log.ndjson": "agent.created",
	} {
		if !strings.Contains(files[name], has) {
			t.Errorf("%s of the archive has no %q: %.300s", name, has, files[name])
		}
	}
	for name, text := range files {
		if strings.Contains(text, "the owner works") || strings.Contains(text, w.key) {
			t.Errorf("%s has what is not Ada's", name)
		}
	}
}

// checkRefusals checks who may not erase, whom, and when.
func (w *told) checkRefusals(t *testing.T) {
	t.Helper()
	w.ada.Expect(403, "GET", w.path(), nil)
	w.ada.Expect(403, "POST", erasurePath, object{"subject_id": w.id})
	w.Expect(404, "POST", erasurePath, object{"subject_id": "0199a3b0-0000-7000-8000-000000000000"})
	w.Expect(422, "POST", erasurePath, object{"subject_id": w.id, "confirm": "another"})
	w.Expect(422, "GET", accessPath, nil)
	_, others := w.CreateTenant(object{"name": "Others"})
	others.Expect(404, "GET", w.path(), nil)
	others.Expect(404, "POST", erasurePath, object{"subject_id": w.id})
	dry := w.Expect(200, "POST", erasurePath, object{"subject_id": w.id, "dry_run": true})
	if dry["status"] != "dry_run" || dry["erased"].(object)["runs"] != 3.0 || dry["erased"].(object)["files"] != 2.0 {
		t.Errorf("%v", dry)
	}
	w.Expect(200, "GET", "/api/v1/runs/"+w.alone, nil)
	settings := "/api/v1/admin/tenants/" + w.tenant + "/settings"
	w.Expect(200, "PATCH", settings, object{"legal_hold": true})
	w.Do("POST", erasurePath, object{"subject_id": w.id}).IsProblem(t, 423, "LEGAL_HOLD")
	for _, path := range []string{"/api/v1/sessions/" + w.talk, "/api/v1/agents/" + w.agent, "/api/v1/files/" + w.file} {
		apptest.Eventually(t, func() bool { return w.Do("DELETE", path, nil).StatusCode == 423 })
	}
	w.Expect(200, "PATCH", settings, object{"legal_hold": false})
}

// checkErased checks that nothing of what Ada said is left, and all of the owner's.
func (w *told) checkErased(t *testing.T) {
	t.Helper()
	for _, gone := range []string{"runs/" + w.alone, "runs/" + w.talked, "runs/" + w.join, "sessions/" + w.talk, "files/" + w.file} {
		w.Expect(404, "GET", "/api/v1/"+gone, nil)
	}
	w.Expect(200, "GET", "/api/v1/runs/"+w.other, nil)
	rest := string(w.Do("GET", "/api/v1/sessions/"+w.shared, nil).Body)
	if !strings.Contains(rest, "the owner asks") || strings.Contains(rest, "Ada joins") {
		t.Error(rest)
	}
	w.WaitRun(w.SendMessage(w.shared, "and goes on"))
	for _, table := range w.admin.CompanyTables() {
		for _, row := range w.admin.Query(`SELECT * FROM ` + table) {
			for column, value := range row {
				for _, said := range []string{"only Ada says", "Ada talks", "Ada likes", "Ada joins"} {
					if text, ok := value.(string); ok && strings.Contains(text, said) {
						t.Errorf("%s.%s still has what Ada said: %.200s", table, column, text)
					}
				}
			}
		}
	}
	entries := w.Expect(200, "GET", "/api/v1/admin/audit/"+w.id+"?type=user", nil)["entries"].([]any)
	if !slices.ContainsFunc(entries, func(e any) bool { return e.(object)["action"] == "data_subject.erasure" }) {
		t.Errorf("%v", entries)
	}
	if v := w.Expect(200, "GET", "/api/v1/governance/ledger/verify", nil); v["valid"] != true {
		t.Errorf("%v", v)
	}
}

// A member's data is found wherever it is, handed out whole, and erased but for what the
// answer names; that of others stays.
func TestDataSubjects(t *testing.T) {
	t.Parallel()
	apptest.EachDatabase(t, func(t *testing.T, adjust func(*config.Config)) {
		w := tell(t, apptest.Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "understood"})), adjust))
		w.checkAccess(t)
		w.checkRefusals(t)
		done := w.Expect(200, "POST", erasurePath, object{"subject_id": w.id, "confirm": true})
		for kind, n := range map[string]float64{"runs": 3, "sessions": 1, "files": 2, "feedback": 1} {
			if done["erased"].(object)[kind] != n || done["status"] != "completed" {
				t.Errorf("%v", done)
			}
		}
		kept := whats(done["kept"])
		if !slices.Contains(kept, "audit_log") || !slices.Contains(kept, "users") || slices.Contains(kept, "runs") {
			t.Errorf("%v", kept)
		}
		w.checkErased(t)
		// Once more it changes nothing, also after the member was removed.
		w.Expect(200, "DELETE", "/api/v1/users/"+w.id, nil)
		again := w.Expect(200, "POST", erasurePath, object{"subject_id": w.id})
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
