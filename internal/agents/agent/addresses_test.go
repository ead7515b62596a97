package agent_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/agents/agent"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/egress"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/memstore"
)

// An agent's addresses are checked where a body brings them, before the transaction;
// those that stay are not looked up again.
func TestAddresses(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	var writing bool
	store := memstore.New()
	deps, _ := resourcetest.Deps(store, writer{store, &writing})
	deps.Egress = func(_ context.Context, tenant, url string) error {
		mu.Lock()
		defer mu.Unlock()
		if writing {
			t.Errorf("%s is looked up in a transaction", url)
		}
		asked = append(asked, url)
		if strings.Contains(url, "inside") {
			return fault.New(fault.Invalid, "", "It is inside.")
		}
		return nil
	}
	o := options
	o.MCPAddresses = func(raw schema.Object) []egress.Address {
		if !strings.Contains(string(raw), "https://mcp.example") {
			return nil
		}
		return []egress.Address{{Field: "mcp.servers[0].url", URL: "https://mcp.example"}}
	}
	b := bench{resourcetest.NewClient(agent.New(deps, o).Routes()), nil, deps}
	expect := func(what string, want ...string) {
		t.Helper()
		slices.Sort(asked)
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		asked = nil
	}
	at := func(url string) string { return `{"provider":"custom","model_ref":"m","endpoint_url":"` + url + `"}` }

	_, err := b.Do(t.Context(), "POST", path, resourcetest.Args{"": `{"name":"a","model":` + at("https://inside.example") +
		`,"fallback_model":` + at("https://b.example") + `,"mcp":{"servers":[{"url":"https://mcp.example"}]}}`})
	resourcetest.WantFields(t, err, "model.endpoint_url")
	expect("creation", "https://b.example", "https://inside.example", "https://mcp.example")

	id := b.create(t, `{"name":"a","model":`+at("https://a.example")+`}`)
	expect("creation", "https://a.example")
	b.do(t, "PATCH", "", id, `{"name":"b","model":`+at("https://a.example")+`}`)
	expect("an unchanged address")
	b.do(t, "PATCH", "", id, `{"fallback_model":`+at("https://a.example")+`}`)
	expect("an address of another field")
	for _, method := range []string{"PATCH", "PUT"} {
		_, err = b.try(t, method, "", id, `{"name":"c","fallback_model":`+at("https://inside.example")+`}`)
		resourcetest.WantFields(t, err, "fallback_model.endpoint_url")
		expect(method, "https://inside.example")
	}
	b.do(t, "PATCH", "", id, `{"model":`+at("https://c.example")+`,"fallback_model":null}`)
	expect("change", "https://c.example")
	b.do(t, "POST", "/rollback", id, `{"version":1}`)
	expect("rollback", "https://a.example")
	b.do(t, "POST", "/suspend", id, `{}`)
	expect("a move")
}

// writer notes whether a transaction is under way.
type writer struct {
	txn.Writer
	writing *bool
}

func (w writer) Write(ctx context.Context, do func(txn.Tx) error) error {
	*w.writing = true
	defer func() { *w.writing = false }()
	return w.Writer.Write(ctx, do)
}
