package contract

import (
	"maps"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/edge/httpapi"
	"agentd/internal/kernel/model/modeltest"
)

// Every example of the document succeeds, with the names of things and the secrets that
// the company has in place of the example's.
func TestExamplesSucceed(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	c := contracttest.NewOwnCompany(t, apptest.Start(t, modeltest.New(t, apptest.HangingModel), apptest.WebSearch(t), apptest.Embedding, apptest.AddressPerRequest))
	operations := contracttest.Operations(c.Server)
	slices.SortStableFunc(operations, contracttest.DeletionsLast)
	for _, op := range operations {
		example := httpapi.Example(op.Row)
		if example == nil || op.NeedsPerson || op.NeedsWorld() {
			continue
		}
		t.Run(op.TestName(), func(t *testing.T) {
			c := c.WithT(t)
			call := c.OwnCall(op)
			var body any // a list, of few operations
			if err := json.Unmarshal(example, &body); err != nil {
				t.Fatal(err)
			}
			own, changed := call.Body.(apptest.Object)
			if object, ok := body.(apptest.Object); ok && changed {
				maps.Copy(object, own)
			}
			call.Body = body
			if r := call.Send(c.Server); !op.Succeeds(r.StatusCode) {
				t.Errorf("%v: %d %s", body, r.StatusCode, r.Body)
			}
		})
	}
}
