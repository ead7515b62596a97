package resourcetest

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// Client calls routes as the HTTP edge does, without HTTP.
type Client struct {
	Routes []route.Route
	Who    authz.Caller
}

// NewClient calls routes as an owner of a new tenant.
func NewClient(routes []route.Route) Client {
	return Client{routes, authz.Caller{
		TenantID: ident.New(), UserID: ident.New(), Role: authz.Owner, Scopes: []authz.Scope{authz.Wildcard},
	}}
}

// Args fill an operation's input by the names of path parameters, query
// parameters and headers; "" is the body.
type Args map[string]string

// Do calls the route with that method and path pattern.
func (c Client) Do(ctx context.Context, method, path string, args Args) (*route.Reply, error) {
	for _, r := range c.Routes {
		if r.Method == method && r.Path == path {
			return Do(ctx, r, c.Who, args)
		}
	}
	panic("no route " + method + " " + path)
}

// Do calls a route. The answer of a typed action is rendered as JSON.
func Do(ctx context.Context, r route.Route, who authz.Caller, args Args) (*route.Reply, error) {
	in := reflect.New(r.In)
	for _, f := range reflect.VisibleFields(r.In) {
		if f.Anonymous {
			continue
		}
		at := in.Elem().FieldByIndex(f.Index)
		if f.Name == "Body" {
			if f.Type == reflect.TypeFor[jsontext.Value]() {
				at.SetBytes([]byte(args[""]))
			} else if err := json.Unmarshal([]byte(args[""]), at.Addr().Interface()); err != nil && args[""] != "" {
				return nil, err
			}
			continue
		}
		name := f.Tag.Get("path") + f.Tag.Get("query") + f.Tag.Get("header")
		if at.Kind() == reflect.String {
			at.SetString(args[name])
		} else if err := json.Unmarshal([]byte(args[name]), at.Addr().Interface()); err != nil && args[name] != "" {
			return nil, err
		}
	}
	out, err := r.Call(ctx, who, in.Interface())
	if err != nil {
		return nil, err
	}
	if reply, ok := out.(*route.Reply); ok {
		return reply, nil
	}
	answer, err := json.Marshal(out)
	return &route.Reply{JSON: answer}, err
}

// Object decodes an answer.
func Object(t *testing.T, reply *route.Reply) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(reply.JSON, &object); err != nil {
		t.Fatalf("the answer %s is no object: %v", reply.JSON, err)
	}
	return object
}

// WantFault fails the test unless err is a fault of that kind (and of code,
// unless code is ""), and returns the fault.
func WantFault(t *testing.T, err error, kind fault.Kind, code string) *fault.Error {
	t.Helper()
	if err == nil {
		t.Fatalf("there was no refusal, want kind %d %s", kind, code)
	}
	e := fault.From(err)
	if e.Kind != kind || code != "" && e.Code != code {
		t.Fatalf("refused with kind %d %s: %v, want kind %d %s", e.Kind, e.Code, err, kind, code)
	}
	return e
}

// WantFields fails the test unless err is a refusal of exactly these fields.
func WantFields(t *testing.T, err error, fields ...string) {
	t.Helper()
	e := WantFault(t, err, fault.Invalid, "VALIDATION_ERROR")
	var got []string
	for _, f := range e.Fields {
		got = append(got, f.Field)
		if f.Message == "" {
			t.Errorf("the fault of %s says nothing", f.Field)
		}
	}
	if !sameSet(got, fields) {
		t.Errorf("invalid fields are %v, want %v", got, fields)
	}
}

func sameSet(a, b []string) bool {
	count := map[string]int{}
	for _, s := range a {
		count[s]++
	}
	for _, s := range b {
		count[s]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// Outbox records the changes that committed.
type Outbox struct {
	mu      sync.Mutex
	changes []resource.Change
}

// Append implements resource.Outbox.
func (o *Outbox) Append(tx txn.Tx, c resource.Change) error {
	tx.AfterCommit(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.changes = append(o.changes, c)
	})
	return nil
}

// Of returns the actions that were published of a resource, in order.
func (o *Outbox) Of(id string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var actions []string
	for _, c := range o.changes {
		if c.ID == id {
			actions = append(actions, c.Action)
		}
	}
	return strings.Join(actions, " ")
}
