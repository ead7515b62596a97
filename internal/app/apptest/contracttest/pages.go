package contracttest

import (
	"agentd/internal/app/apptest"
)

// talkAsPage talks with an agent as a page of AG-UI does, which has ids and a state of its
// own.
func (c *Company) talkAsPage(agent string) {
	c.T.Helper()
	got := c.Do("POST", "/agui/agents/"+agent, apptest.Object{
		"threadId": c.Mark + " thread", "runId": c.Mark + " run", "state": apptest.Object{"note": c.Mark},
		"messages": []apptest.Object{{"id": c.Mark + " message", "role": "user", "content": c.Mark}},
		"tools":    []apptest.Object{}, "context": []apptest.Object{}, "forwardedProps": apptest.Object{},
	})
	if got.StatusCode != 200 {
		c.T.Fatalf("a page talks: %d %s", got.StatusCode, got.Body)
	}
}
