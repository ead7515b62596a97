package contracttest

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
)

// WithField is a body with one field set, however deep: messages[].tool_call_id is
// that of the first message.
func WithField(body apptest.Object, path string, value any) apptest.Object {
	out := apptest.Object{}
	maps.Copy(out, body)
	name, rest, deeper := strings.Cut(path, ".")
	name, list := strings.CutSuffix(name, "[]")
	if deeper {
		inner, _ := first(out[name]).(apptest.Object)
		value = WithField(inner, rest, value)
	}
	if list {
		value = []any{value}
	}
	out[name] = value
	return out
}

// first is the first of a list, or what is no list.
func first(v any) any {
	switch list := v.(type) {
	case []any:
		if len(list) > 0 {
			return list[0]
		}
	case []apptest.Object:
		if len(list) > 0 {
			return list[0]
		}
	}
	return v
}

// Call is a request to an operation.
type Call struct {
	Operation *Operation
	Path      map[string]string
	Query     url.Values
	Body      any

	Headers []string // names and values, beside those that it always has
}

// Recipes are for the operations with a body whose rows have no example, and for
// those that need more than the first of everything in their path. By operation id.
var Recipes = joined(recipes, measuring, configuring, aboutPeople, aboutFiles)

func joined(parts ...map[string]recipe) map[string]recipe {
	all := map[string]recipe{}
	for _, part := range parts {
		maps.Copy(all, part)
	}
	return all
}

// OwnCall is the call of an operation with things of the company, which succeeds.
func (c *Company) OwnCall(op *Operation) *Call {
	c.T.Helper()
	made := &Call{Operation: op, Path: map[string]string{}, Query: url.Values{}}
	for _, p := range op.PathParams {
		if strings.HasPrefix(op.Path, "/api/v1/admin/audit/") {
			made.Path[p] = c.IDs["agentId"][0]
			continue
		}
		if op.Operator && p == "tenantId" {
			made.Path[p] = c.IDs["subordinate"][0]
			continue
		}
		if len(c.IDs[p]) == 0 {
			c.T.Fatalf("%s: no test knows what {%s} may be: have NewCompany in internal/app/apptest/contracttest/company.go make such a "+
				"thing and add its id", op, p)
		}
		made.Path[p] = c.IDs[p][0]
	}
	how, known := Recipes[op.ID]
	switch {
	case known || op.BodySchema == nil || op.Optional && op.Example == "":
	case op.Example != "":
		made.Body = c.example(op)
	default:
		c.T.Fatalf("%s: no test knows a body for it: give its row, or its kind, an Example, or add one to Recipes in "+
			"internal/app/apptest/contracttest/recipes.go, by its id %s", op, op.ID)
	}
	if how.body != nil {
		made.Body = maps.Clone(how.body)
	}
	if how.with != nil {
		made.Body = how.with(c)
	}
	if how.ids != nil {
		how.ids(c, made)
	}
	return made
}

// Target returns the path and query of the call.
func (k *Call) Target() string {
	path := Parameter.ReplaceAllStringFunc(k.Operation.Path, func(p string) string { return url.PathEscape(k.Path[p[1:len(p)-1]]) })
	if len(k.Query) > 0 {
		path += "?" + k.Query.Encode()
	}
	return path
}

// Send makes the call with a node's key.
func (k *Call) Send(n *apptest.Server, headers ...string) apptest.Reply {
	n.T.Helper()
	headers = append(slices.Clone(k.Headers), headers...)
	if k.Operation.Endless {
		return k.begin(n, headers...)
	}
	if k.Operation.Streams {
		headers = append(headers, "Accept", "text/event-stream")
	}
	return n.Do(k.Operation.Method, k.Target(), k.Body, headers...)
}

// begin makes the call of a stream that nothing ends, and reads no more of it
// than that it began.
func (k *Call) begin(n *apptest.Server, headers ...string) apptest.Reply {
	n.T.Helper()
	ctx, cancel := context.WithCancel(n.T.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, k.Operation.Method, n.URL+k.Target(), nil)
	if err != nil {
		n.T.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+n.Key)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := apptest.HTTPClient.Do(req)
	if err != nil {
		n.T.Fatal(err)
	}
	defer resp.Body.Close()
	out := apptest.Reply{Response: resp}
	if resp.StatusCode != http.StatusOK {
		if out.Body, err = io.ReadAll(resp.Body); err != nil {
			n.T.Fatal(err)
		}
		_ = json.Unmarshal(out.Body, &out.JSON) // it may be empty
	}
	return out
}
