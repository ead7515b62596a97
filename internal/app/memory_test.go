package app_test

import (
	"testing"

	"agentd/internal/model/modeltest"
)

func TestSmoke(t *testing.T) {
	n := start(t, modeltest.New(t))
	agent := n.agent(nil)
	path := "/api/v1/agents/" + agent + "/memory"
	e := n.want(201, "POST", path, object{"content": "The user likes tea", "tags": []string{"a"}})
	t.Log(e)
	t.Log(n.want(200, "GET", path, nil))
	t.Log(n.want(200, "POST", path+"/search", object{"text": "tea"}))
	t.Log(n.want(200, "PUT", path+"/core/human", object{"content": "x"}))
	t.Log(n.want(200, "GET", path+"/core", nil))
	t.Log(n.want(201, "POST", path+"/ingest", object{"content": "x y z", "filename": "a.html"}))
	t.Log(n.want(200, "POST", path+"/import", object{"entries": []object{{"content": "the user likes TEA"}}}))
	t.Log(n.want(200, "GET", path+"/entities/foo", nil))
	kb := n.want(201, "POST", "/api/v1/knowledge-bases", object{"name": "x"})["id"].(string)
	t.Log(n.want(201, "POST", "/api/v1/knowledge-bases/"+kb+"/documents", object{"content": "hello world"}))
	t.Log(n.want(200, "POST", "/api/v1/knowledge-bases/"+kb+"/search", object{"query": "hello world"}))
	t.Log(n.want(200, "GET", "/api/v1/knowledge-bases/"+kb+"/documents", nil))
	n.want(200, "PATCH", "/api/v1/agents/"+agent, object{"knowledge_base_id": kb})
	t.Log(n.want(200, "GET", "/api/v1/knowledge-bases", nil))
}
