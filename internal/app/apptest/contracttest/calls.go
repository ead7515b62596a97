package contracttest

import (
	"strings"

	"agentd/internal/app/apptest"
	"agentd/internal/base/ident"
)

// atPath names a file of a workspace in the query.
func atPath(path string) func(*Company, *Call) {
	return func(_ *Company, call *Call) { call.Query.Set("path", path) }
}

// ofProvider names a model provider in the path.
func ofProvider(name string) func(*Company, *Call) {
	return func(_ *Company, call *Call) { call.Path["provider"] = name }
}

// addedListing names a draft of a listing that no other operation needs.
func addedListing(c *Company, call *Call) { call.Path["listingId"] = c.addListing("made by a test") }

// offeredListing names a listing of another company.
func offeredListing(c *Company, call *Call) { call.Path["listingId"] = c.IDs["offered"][0] }

// addedIntegration names an integration that no other operation needs.
func addedIntegration(c *Company, call *Call) {
	call.Path["integrationId"] = c.addIntegration("deleted by a test")
}

// spoken is a form with a sound.
func spoken(_ *Company, call *Call) { form("a.mp3", "sound")(nil, call) }

// form sends a file as a form does.
func form(name, content string) func(*Company, *Call) {
	return func(_ *Company, call *Call) {
		call.Body = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name + "\"\r\n\r\n" + content + "\r\n--b--\r\n"
		call.Headers = append(call.Headers, "Content-Type", "multipart/form-data; boundary=b")
	}
}

// newlyUploaded names a file that no knowledge base has.
func newlyUploaded(c *Company) apptest.Object {
	return apptest.Object{"file_id": c.Expect(201, "POST", "/api/v1/files",
		apptest.Object{"data": "aGVsbG8=", "mime_type": "text/plain", "filename": "made by a test.txt"})["file_id"]}
}

// addedFile names a file that no other operation needs.
func addedFile(c *Company, call *Call) { call.Path["fileId"] = newlyUploaded(c)["file_id"].(string) }

// addedVectorStore names a vector store that no other operation needs.
func addedVectorStore(c *Company, call *Call) {
	call.Path["vectorStoreId"] = c.Expect(200, "POST", "/v1/vector_stores", apptest.Object{"name": "deleted by a test"})["id"].(string)
}

// addedStoreFile names a file of a vector store that no other operation needs.
func addedStoreFile(c *Company, call *Call) {
	addedFile(c, call)
	c.Expect(200, "POST", "/v1/vector_stores/"+call.Path["vectorStoreId"]+"/files", apptest.Object{"file_id": call.Path["fileId"]})
}

// addedResponse names a response that no other operation needs.
func addedResponse(c *Company, call *Call) {
	call.Path["responseId"] = c.Expect(200, "POST", apptest.ResponsesPath,
		apptest.Object{"model": c.IDs["agentId"][0], "input": "deleted by a test"})["id"].(string)
}

// uploaded is a body that names a file.
func uploaded(c *Company) apptest.Object { return apptest.Object{"file_id": c.IDs["fileId"][0]} }

// teamEdge names an edge of the team in the path.
func teamEdge(c *Company, call *Call) {
	path := "/api/v1/teams/" + call.Path["teamId"] + "/graph/"
	nodes := c.Expect(200, "GET", path+"nodes", nil)["nodes"].([]any)
	end := nodes[0].(apptest.Object)["agent_id"]
	call.Path["edgeId"] = c.Expect(201, "POST", path+"edges", apptest.Object{"from": end, "to": end, "type": "peer"})["edge_id"].(string)
}

// addedProvider is a model provider that the operator adds. All companies see its id, so it
// does not look like that of a secret thing.
func addedProvider(*Company) apptest.Object {
	return apptest.Object{"id": "p" + strings.ReplaceAll(ident.New(), "-", ""), "name": "made by a test", "default_endpoint": "https://models.example.com/v1"}
}

// addProvider has a call concern a model provider that the operator added for it. Others
// may call none of these operations, so they name one that is there.
func addProvider(c *Company, call *Call) {
	if call.Path["provider"] = "openai"; !c.IsOperator() {
		return
	}
	made := c.WithKey(apptest.OwnerKey).Expect(201, "POST", "/api/v1/admin/providers", addedProvider(c))
	call.Path["provider"] = made["id"].(string)
}

// createPublicAgent returns an agent that no other operation suspends or deletes, and
// whose card is public.
func (c *Company) createPublicAgent() string {
	return c.CreateAgent(apptest.Object{"name": "with a card", "a2a": apptest.Object{"enabled": true, "public": true}})
}
