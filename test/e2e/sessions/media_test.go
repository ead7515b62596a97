package sessions

import (
	"encoding/base64"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// What a model is known not to take is refused before the run begins, wherever it comes in,
// with the field and what to do. Earlier messages, and a fallback, get words in their place (rule
// D23-input-limits).
func TestModelsThatTakeNoFiles(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		if r.Chat().Model == "broken" {
			return modeltest.Answer{Status: http.StatusBadRequest, Error: "down"}
		}
		return modeltest.Answer{Text: "So."}
	}))
	n := apptest.Start(t, nil, apptest.WithModels(t, sim, `[{"id":"sim-model"}, {"id":"broken"}, {"id":"blind","supports_vision":false},
		{"id":"limited","capabilities":{"inputs":{"images":{"max_count":1,"max_bytes":9},"documents":false,"audio":false}}}]`))
	upload := func(mimeType, name, data string) string {
		return n.Expect(201, "POST", "/api/v1/files", object{"mime_type": mimeType, "filename": name, "data": base64.StdEncoding.EncodeToString([]byte(data))})["file_id"].(string)
	}
	text, image, large := upload("text/plain", "a.txt", "x"), upload("image/png", "a.png", "\x89PNG"), upload("image/png", "b.png", "\x89PNG to spare")
	pdf, sound := upload("application/pdf", "a.pdf", "%PDF-"), upload("audio/mpeg", "a.mp3", "ID3")
	agentOf := func(ref string, more object) string {
		fields := object{"model": object{"provider": "openai_compat", "model_ref": ref}}
		maps.Copy(fields, more)
		return n.CreateAgent(fields)
	}
	limited, blind := agentOf("default/limited", nil), agentOf("default/blind", nil)
	own := agentOf("default/sim-model", object{"model": object{
		"provider": "openai_compat", "model_ref": "default/sim-model", "capabilities": object{"inputs": object{"documents": false}},
	}})
	session := n.CreateSession(limited, nil)
	for name, c := range map[string]struct {
		agent string
		files []string
		at    int // of the file that is refused; -1: none
		says  string
	}{
		"a text":              {limited, []string{text}, -1, ""},
		"an image":            {limited, []string{text, image}, -1, ""},
		"two images":          {limited, []string{image, image}, 1, "up to 1 images"},
		"a large image":       {limited, []string{large}, 0, "up to 9 bytes, and this one has"},
		"a document":          {limited, []string{text, pdf}, 1, "takes no documents. Choose another model, or send its text"},
		"a recording":         {limited, []string{sound}, 0, "takes no recordings"},
		"without vision":      {blind, []string{image}, 0, "takes no images"},
		"what is not known":   {blind, []string{pdf, sound}, -1, ""},
		"as the agent says":   {own, []string{image, pdf}, 1, "takes no documents"},
		"all that is unknown": {own, []string{image, large, sound}, -1, ""},
	} {
		check := func(got apptest.Reply, field string) {
			t.Helper()
			if c.at < 0 && got.StatusCode == 202 {
				return
			}
			field = strings.Replace(field, "#", string(rune('0'+c.at)), 1)
			if c.at < 0 || got.StatusCode != 422 || !strings.Contains(string(got.Body), `"field":"`+field+`"`) || !strings.Contains(string(got.Body), c.says) {
				t.Errorf("%s: %d %s", name, got.StatusCode, got.Body)
			}
		}
		check(n.Do("POST", "/api/v1/runs", object{"agent_id": c.agent, "input": object{"message": "Look.", "file_ids": c.files}}), "input.file_ids[#]")
		check(n.Do("POST", "/api/v1/sessions/"+n.CreateSession(c.agent, nil)+"/messages", object{"content": "Look.", "file_ids": c.files}), "file_ids[#]")
	}
	const picture = "data:image/png;base64,iVBORw0KGgo="
	chat := func(model string) apptest.Reply {
		return n.Do("POST", "/v1/chat/completions", object{"model": model, "messages": []object{{"role": "user", "content": []object{
			{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": object{"url": picture}},
		}}}})
	}
	messages := func(model string) apptest.Reply {
		return n.Do("POST", "/v1/messages", object{"model": model, "max_tokens": 9, "messages": []object{{"role": "user", "content": []object{
			{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
		}}}})
	}
	responses := n.Do("POST", "/v1/responses", object{"model": blind, "input": []object{{"role": "user", "content": []object{{"type": "input_image", "image_url": picture}}}}})
	for name, got := range map[string]apptest.Reply{
		"chat": chat(blind), "messages": messages(blind), "messages of a model": messages("default/blind"), "responses": responses,
	} {
		if got.StatusCode/100 != 4 || !strings.Contains(string(got.Body), "takes no images") {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.Body)
		}
	}
	if got := messages("default/sim-model"); got.StatusCode != 200 {
		t.Errorf("%d %s", got.StatusCode, got.Body)
	}

	n.WaitRun(n.Expect(202, "POST", "/api/v1/sessions/"+session+"/messages", object{"content": "Look.", "file_ids": []string{image}})["run_id"].(string))
	n.Expect(200, "PUT", "/api/v1/sessions/"+session, object{"model_override": object{"provider": "openai_compat", "model_ref": "default/blind"}})
	checkWords(t, n, sim, n.SendMessage(session, "and now?"))
	spare := agentOf("default/broken", object{"fallback_model": object{"provider": "openai_compat", "model_ref": "default/blind"}})
	checkWords(t, n, sim, n.Expect(202, "POST", "/api/v1/runs", object{"agent_id": spare, "input": object{"message": "Look.", "file_ids": []string{image}}})["run_id"].(string))
}

// checkWords reports whether the model of a run, which takes no images, received words.
func checkWords(t *testing.T, n *apptest.Server, sim *modeltest.Server, run string) {
	t.Helper()
	if r := n.WaitRun(run); r["status"] != "completed" {
		t.Errorf("%v", r)
	}
	all := sim.Requests()
	if asked := string(all[len(all)-1].Body); !strings.Contains(asked, "which this model cannot see") || strings.Contains(asked, "image_url") {
		t.Errorf("the model was asked %s", asked)
	}
	for _, s := range n.Expect(200, "GET", "/api/v1/runs/"+run+"/steps", nil)["steps"].([]any) {
		if step := s.(object); step["type"] == "llm" && step["status"] == "completed" {
			if diff := cmp.Diff([]any{object{"code": "parameter_dropped", "parameter": "images"}}, step["output"].(object)["warnings"]); diff != "" {
				t.Errorf("warnings: %s", diff)
			}
		}
	}
}
