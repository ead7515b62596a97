package content

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// zipOf packs files, by path.
func zipOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, data := range files {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write([]byte(data))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// importSkill sends an archive as a form.
func importSkill(n *apptest.Server, agent string, data []byte) apptest.Reply {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	f, err := form.CreateFormFile("file", "skill.zip")
	if err == nil {
		_, err = f.Write(data)
	}
	if err != nil || form.Close() != nil {
		n.T.Fatal(err)
	}
	return n.Do(http.MethodPost, "/api/v1/agents/"+agent+"/skills/import", b.String(), "Content-Type", form.FormDataContentType())
}

// TestSkills imports a skill and has a run use it: the model reads its name and
// description, gets its instructions by a tool, finds its files in the workspace, and is
// offered the tools that it names.
func TestSkills(t *testing.T) {
	t.Parallel()
	var system, offered string
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		chat := req.Chat()
		switch last := chat.Last("tool"); {
		case last == "" && chat.Last("user") == "unknown":
			return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "1", Name: "use_skill", Arguments: `{"name":"nothing"}`}}}
		case last == "":
			system, offered = chat.Last("system"), string(req.Body)
			return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "1", Name: "use_skill", Arguments: `{"name":"invoices"}`}}}
		case strings.Contains(last, "Number them"):
			return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "2", Name: "read_file", Arguments: `{"path":"skills/invoices/forms/blank.txt"}`}}}
		default:
			return modeltest.Answer{Text: last}
		}
	}))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(object{"skills": []object{
		{"name": "greeting", "description": "Says hello."},
		{"id": "small", "name": "Small", "description": "Is here already.", "instructions": "None.", "files": []object{{"path": "x.txt", "content": "inline"}}},
	}})
	data := zipOf(t, map[string]string{
		"invoices/SKILL.md":        "---\nname: invoices\ndescription: Writes invoices.\nallowed-tools: read_file Bash\n---\nNumber them. The form is forms/blank.txt.",
		"invoices/forms/blank.txt": "No. ____",
	})
	got := importSkill(n, agent, data).Value().(object)
	if got["name"] != "invoices" || got["replaced"] != false || got["files"].([]any)[0] != "forms/blank.txt" ||
		got["allowed_tools"].([]any)[0] != "read_file" || got["ignored_tools"].([]any)[0] != "Bash" {
		t.Fatalf("%v", got)
	}
	r := n.WaitRun(n.StartRun(agent, "write one", nil))
	if text := r["output"].(object)["text"].(string); !strings.Contains(text, "No. ____") {
		t.Errorf("the run read %q", text)
	}
	for _, want := range []string{"- invoices: Writes invoices.", "- greeting: Says hello. (without instructions)", "use_skill"} {
		if !strings.Contains(system, want) {
			t.Errorf("the model is told %q, without %q", system, want)
		}
	}
	if strings.Contains(system, "Number them") || !strings.Contains(offered, `"read_file"`) {
		t.Errorf("instructions come too early, or the skill's tools are not offered: %s", offered)
	}
	r = n.WaitRun(n.StartRun(agent, "unknown", nil))
	if text := r["output"].(object)["text"].(string); !strings.Contains(text, "Your skills are: Small, invoices") {
		t.Errorf("of an unknown skill the model is told %q", text)
	}
	if again := importSkill(n, agent, data).Value().(object); again["replaced"] != true {
		t.Errorf("%v", again)
	}
	if skills := n.Expect(200, "GET", "/api/v1/agents/"+agent, nil)["skills"].([]any); len(skills) != 3 {
		t.Errorf("%v", skills)
	}
	inJSON := object{"data": base64.StdEncoding.EncodeToString(data)}
	if again := n.Expect(200, "POST", "/api/v1/agents/"+agent+"/skills/import", inJSON); again["replaced"] != true {
		t.Errorf("%v", again)
	}
	importSkill(n, agent, []byte("nonsense")).IsProblem(t, 422, "VALIDATION_ERROR")
	_, other := n.CreateTenant(object{"name": "Other"})
	importSkill(other, agent, data).IsProblem(t, 404, "NOT_FOUND")
	if plain := n.WaitRun(n.StartRun(n.CreateAgent(object{"skills": []object{{"description": "No name."}}}), "unknown", nil)); strings.Contains(system, "No name.") {
		t.Errorf("%v", plain)
	}
}
