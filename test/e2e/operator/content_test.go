package operator

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// The next call of run_code has the time, the output and the files that the operator lets
// it have.
func TestCodeInterpreter(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	agent := n.CreateAgent(object{
		"model": object{"provider": "custom", "model_ref": "builtin/echo"}, "built_in_tools": []string{"run_code"},
	})
	run := func(code string) string {
		r := n.WaitRun(n.StartRun(agent, `call run_code {"code":"`+code+`"}`, nil))
		return fmt.Sprint(r["output"])
	}
	const (
		prints = `console.log('x'.repeat(500)); 1`
		writes = `writeFile('a.txt', 'four'); writeFile('b.txt', 'four'); 'both are written'`
		loops  = `const end = Date.now() + 300; while (Date.now() < end) {} 'it ended'`
	)
	for code, want := range map[string]string{prints: strings.Repeat("x", 500), writes: "both are written", loops: "it ended"} {
		if got := run(code); !strings.Contains(got, want) {
			t.Fatalf("%q is missing in %q", want, got)
		}
	}
	put(n, "code-interpreter", object{"max_output_bytes": 100, "max_written_bytes": 7})
	if got := run(prints); strings.Contains(got, strings.Repeat("x", 101)) || !strings.Contains(got, "cut off") {
		t.Errorf("the output: %q", got)
	}
	if got := run(writes); !strings.Contains(got, "7 bytes at most") {
		t.Errorf("8 bytes are written: %q", got)
	}
	put(n, "code-interpreter", object{"timeout_ms": 30})
	if got := run(loops); !strings.Contains(got, "took too long") {
		t.Errorf("it runs on: %q", got)
	}
	put(n, "code-interpreter", object{"timeout_ms": nil, "max_written_bytes": nil, "max_written_files": 1})
	if got := run(writes); !strings.Contains(got, "too many files: 1 at most") {
		t.Errorf("two files are written: %q", got)
	}
	refusedKeys(t, n, "code-interpreter", map[string]string{
		`{"timeout_ms":60000}`: "timeout_ms", `{"max_output_bytes":1}`: "max_output_bytes", `{"max_written_bytes":-1}`: "max_written_bytes",
	})
}

// Agents that do not say keep and recall as much as the operator says, and none keeps more.
func TestAgentMemory(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	create := func(memory object) (agent, path string) {
		agent = n.CreateAgent(object{"model": object{"provider": "custom", "model_ref": "builtin/echo"}, "memory": memory})
		return agent, "/api/v1/agents/" + agent + "/memory"
	}
	fill := func(path string, number int) any {
		for i := range number {
			n.Expect(201, "POST", path, object{"content": fmt.Sprintf("Tea is drunk at %d o'clock", i)})
		}
		return n.Expect(200, "GET", path, nil)["total"]
	}
	agent, path := create(object{"enabled": true})
	_, own := create(object{"enabled": true, "max_entries": 50})
	if kept := fill(path, 7); kept != 7.0 {
		t.Fatalf("%v entries", kept)
	}
	recalled := func() any {
		return n.WaitRun(n.StartRun(agent, "When is tea drunk?", nil))["metrics"].(object)["memory_retrievals"]
	}
	if got := recalled(); got != 5.0 {
		t.Errorf("%v entries are recalled", got)
	}
	put(n, "agent-memory", object{"default_retrieval_limit": 2, "default_max_entries": 3, "max_entries": 4})
	if got := recalled(); got != 2.0 {
		t.Errorf("%v entries are recalled, want 2", got)
	}
	if kept := fill(path, 1); kept != 3.0 {
		t.Errorf("%v entries, want the default", kept)
	}
	if kept := fill(own, 6); kept != 4.0 {
		t.Errorf("%v entries, want the most", kept)
	}
	refusedKeys(t, n, "agent-memory", map[string]string{
		`{"max_entries":2}`: "max_entries", `{"default_max_entries":0}`: "default_max_entries", `{"default_retrieval_limit":0}`: "default_retrieval_limit",
	})
}

// A message carries as much of its files to the model as the operator says.
func TestMultimodal(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "Seen."}))
	n := apptest.Start(t, sim)
	upload := func(kind, data string) string {
		return n.Expect(201, "POST", "/api/v1/files", object{
			"data": base64.StdEncoding.EncodeToString([]byte(data)), "mime_type": kind, "filename": "attached",
		})["file_id"].(string)
	}
	text, image := upload("text/plain", strings.Repeat("words ", 300)), upload("image/png", "\x89PNG\r\n\x1a\n"+strings.Repeat("x", 500))
	agent := n.CreateAgent(nil)
	told := func(file string) string {
		n.WaitRun(n.StartRun(agent, "Look.", object{"input": object{"message": "Look.", "file_ids": []string{file}}}))
		all := sim.Requests()
		return string(all[len(all)-1].Body)
	}
	if got := told(text); !strings.Contains(got, "words words") {
		t.Fatalf("the model is not told the text: %s", got)
	}
	if got := told(image); !strings.Contains(got, "data:image/png") {
		t.Fatalf("the model is not given the image: %s", got)
	}
	put(n, "multimodal", object{"max_text_file_bytes": 1000, "max_media_file_bytes": 400})
	for name, file := range map[string]string{"text": text, "image": image} {
		if got := told(file); !strings.Contains(got, "its content is not shown") || strings.Contains(got, "words words") || strings.Contains(got, "data:image") {
			t.Errorf("%s: %s", name, got)
		}
	}
	put(n, "multimodal", object{"max_text_file_bytes": nil, "max_message_file_bytes": 1024})
	refused := n.Do("POST", "/api/v1/runs", object{"agent_id": agent, "input": object{"message": "Look.", "file_ids": []string{text}}})
	if refused.StatusCode != 422 || !strings.Contains(string(refused.Body), "1024 bytes together") {
		t.Errorf("%d %s", refused.StatusCode, refused.Body)
	}
	refusedKeys(t, n, "multimodal", map[string]string{
		`{"max_text_file_bytes":-1}`: "max_text_file_bytes", `{"max_media_file_bytes":5242881}`: "max_media_file_bytes",
		`{"max_message_file_bytes":1}`: "max_message_file_bytes",
	})
}
