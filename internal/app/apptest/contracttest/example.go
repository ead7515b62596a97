package contracttest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
)

// examples counts the bodies that were made from examples, so that each differs.
var examples atomic.Int64

// example returns the body that an operation publishes as its example, with the
// company's mark in its texts. No two are the same.
func (c *Company) example(op *Operation) apptest.Object {
	c.T.Helper()
	var body apptest.Object
	if err := json.Unmarshal([]byte(op.Example), &body); err != nil {
		c.T.Fatalf("%s: its example: %v", op, err)
	}
	n, fields := examples.Add(1), op.Resolve(op.BodySchema).Properties
	for name, value := range body {
		text, ok := value.(string)
		field := op.Resolve(fields[name])
		if !ok || field == nil || field.Enum != nil || field.Pattern != "" {
			continue
		}
		marked := fmt.Sprintf("%s %s %d", text, c.Mark, n)
		if field.Format == "email" {
			marked = fmt.Sprintf("%s%d.%s", c.Mark, n, text)
		}
		if (field.Format == "" || field.Format == "email") && (field.MaxLength == nil || len(marked) <= *field.MaxLength) {
			body[name] = marked
		}
	}
	return body
}

// createExamples creates two of each kind of resource whose creation has an
// example and is not made by hand, and a second version of each if it has
// versions.
func (c *Company) createExamples(add func(parameter, id string)) {
	c.T.Helper()
	operations := Operations(c.Server)
	at := func(method, path string) *Operation {
		if i := slices.IndexFunc(operations, func(o *Operation) bool { return o.Method == method && o.Path == path }); i >= 0 {
			return operations[i]
		}
		return nil
	}
	for _, create := range operations {
		if create.Method != http.MethodPost || create.Example == "" || len(create.PathParams) > 0 {
			continue
		}
		for _, get := range operations {
			parent, parameter, _ := strings.Cut(get.Path, "/{")
			if get.Method != http.MethodGet || parent != create.Path || len(get.PathParams) != 1 || !strings.HasSuffix(get.Path, "}") {
				continue
			}
			parameter = strings.TrimSuffix(parameter, "}")
			for len(c.IDs[parameter]) < 2 {
				made := c.Expect(201, "POST", create.Path, c.example(create))
				id, ok := made[snake(parameter)].(string)
				if !ok {
					id = made["id"].(string)
				}
				add(parameter, id)
				if patch := at(http.MethodPatch, get.Path); patch != nil && at(http.MethodPost, get.Path+"/versions") != nil {
					c.Expect(200, "PATCH", create.Path+"/"+id, c.example(patch))
				}
			}
		}
	}
}

// snake returns order_id for orderId.
func snake(camel string) string {
	var b strings.Builder
	for _, r := range camel {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
