package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/tool"
)

// compiled reports how many of the tools the registry takes.
func compiled(t testing.TB, tools []Operation) int {
	t.Helper()
	registry, err := tool.NewRegistry(tool.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var all []tool.Tool
	for _, o := range tools {
		all = append(all, tool.Tool{Name: o.Name, Parameters: jsontext.Value(o.Parameters), Run: func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{}, nil
		}})
	}
	set, bad := registry.Compile(all...)
	for _, err := range bad {
		t.Log(err)
	}
	return set.Len()
}

func read(t testing.TB, text string) *document {
	t.Helper()
	normal, err := normalized([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	d, err := parseDocument(normal)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A document whose schemas lead in circles, and to nowhere, makes tools that the
// registry takes.
func TestCycles(t *testing.T) {
	t.Parallel()
	d := read(t, `{"openapi":"3.1.0","paths":{"/a":{"post":{"operationId":"a","requestBody":{"$ref":"#/components/requestBodies/A"}}},
		"/b":{"get":{"operationId":"b","parameters":[{"$ref":"#/components/parameters/P"}]}},
		"/c":{"get":{"operationId":"c","parameters":[{"name":"x","in":"query","schema":{"$ref":"#/components/schemas/None"}},
			{"name":"y","in":"query","schema":{"$ref":"https://evil.example/schema"}}]}}},
		"components":{"requestBodies":{"A":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Node"}}}}},
		"parameters":{"P":{"$ref":"#/components/parameters/P"}},
		"schemas":{"Node":{"type":"object","nullable":true,"properties":{"next":{"$ref":"#/components/schemas/Node"},"all":{"type":"array","items":{"$ref":"#/components/schemas/Node"}},
			"wide":{"allOf":[{"$ref":"#/components/schemas/Other"},{"type":"object"}]}}},"Other":{"type":"object","properties":{"back":{"$ref":"#/components/schemas/Node"}}}}}}`)
	tools, total := d.operations(&filter{})
	if total != 3 || len(tools) != 2 || compiled(t, tools) != 2 {
		t.Fatalf("%d operations, %d tools", total, len(tools))
	}
	if want := `"next":{}`; !strings.Contains(string(tools[0].Parameters), want) {
		t.Errorf("the schema is %s", tools[0].Parameters)
	}
}

// Five thousand operations with wide schemas are read in no time, and make no more
// tools than a model can use; the settings choose which.
func TestManyOperations(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"openapi":"3.0.0","servers":[{"url":"https://{zone}.example.com/v1","variables":{"zone":{"default":"eu"}}}],"paths":{`)
	for i := range 6000 {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `"/things/%d":{"post":{"operationId":"op%d","tags":["t%d"],"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/S0"}}}}}}`, i, i, i%10)
	}
	b.WriteString(`},"components":{"schemas":{`)
	for i := range 50 { // each has 50 members, which all lead on: 50^50 without bounds
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `"S%d":{"type":"object","properties":{`, i)
		for j := range 50 {
			if j > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, `"p%d":{"$ref":"#/components/schemas/S%d"}`, j, i+1)
		}
		b.WriteString("}}")
	}
	b.WriteString("}}}")
	start := time.Now()
	d := read(t, b.String())
	tools, total := d.operations(&filter{})
	if took := time.Since(start); took > 20*time.Second { // milliseconds on an idle machine
		t.Errorf("it took %v", took)
	}
	if total != maxOperations || len(tools) != maxTools {
		t.Errorf("%d operations, %d tools", total, len(tools))
	}
	for _, o := range tools {
		if len(o.Parameters) > 4*maxSchema {
			t.Fatalf("a schema has %d bytes", len(o.Parameters))
		}
	}
	if got := d.server(""); got != "https://eu.example.com/v1" {
		t.Errorf("the server is %q", got)
	}
	few, _ := d.operations(&filter{include: []string{"op37*", "POST /things/1"}, exclude: []string{"t0"}, prefix: "x_", names: map[string]string{"op1": "seven"}})
	// op37, op370 and so on, without those of t0, as far as they are among the first 5000.
	if len(few) < 10 || len(few) > 120 || !slices.ContainsFunc(few, func(o Operation) bool { return o.Name == "x_seven" }) ||
		slices.ContainsFunc(few, func(o Operation) bool { return o.Name == "x_op370" }) {
		t.Errorf("%d tools are selected", len(few))
	}
}

func TestOperationsOfDocuments(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		operation string
		tool      string // its parameters; "": none is made
	}{
		"nothing":             {`{}`, `{"additionalProperties":false,"properties":{},"type":"object"}`},
		"cookie and host":     {`{"parameters":[{"name":"s","in":"cookie","schema":{}},{"name":"Host","in":"header"}]}`, `{"additionalProperties":false,"properties":{},"type":"object"}`},
		"same name":           {`{"parameters":[{"name":"id","in":"query"},{"name":"id","in":"header"}]}`, `{"additionalProperties":false,"properties":{"header_id":{},"id":{}},"type":"object"}`},
		"body that is a form": {`{"requestBody":{"required":true,"content":{"multipart/form-data":{}}}}`, ""},
		"body that may miss":  {`{"requestBody":{"content":{"text/plain":{}}}}`, `{"additionalProperties":false,"properties":{},"type":"object"}`},
		"merge patch": {`{"requestBody":{"required":true,"content":{"application/merge-patch+json; charset=utf-8":{"schema":{"type":"string","pattern":"(?<"}}}}}`,
			`{"additionalProperties":false,"properties":{"body":{"type":"string"}},"required":["body"],"type":"object"}`},
		"nullable": {`{"parameters":[{"name":"a","in":"query","description":"A.","schema":{"type":"string","nullable":true,"enum":["x"]}}]}`,
			`{"additionalProperties":false,"properties":{"a":{"description":"A.","type":["string","null"]}},"type":"object"}`},
		"of another form": {`{"parameters":{"name":"x"}}`, ""},
	} {
		d := read(t, `{"openapi":"3.0.1","paths":{"/x":{"post":`+test.operation+`}}}`)
		tools, _ := d.operations(&filter{})
		got := ""
		if len(tools) == 1 {
			got = string(tools[0].Parameters)
		}
		if got != test.tool || compiled(t, tools) != len(tools) {
			t.Errorf("%s: %s, want %s", name, got, test.tool)
		}
	}
	if tools, _ := read(t, `{"openapi":"3.0.1","paths":{"/x/{id}":{"get":{}}}}`).operations(&filter{}); len(tools) != 0 {
		t.Error("a part of the path without a parameter makes a tool")
	}
}

func TestDocumentsThatAreRefused(t *testing.T) {
	t.Parallel()
	bomb := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 10; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), i-1)
	}
	for name, text := range map[string]string{
		"nothing": "", "a list": "[]", "swagger": `{"swagger":"2.0","paths":{}}`, "paths of another form": `{"openapi":"3.0.0","paths":[]}`,
		"a YAML bomb": bomb, "no YAML": "{\x00", "deep": strings.Repeat("[", 10_000), "long": strings.Repeat(" ", MaxDocument+1),
	} {
		normal, err := normalized([]byte(text))
		if err == nil {
			_, err = parseDocument(normal)
		}
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// Whatever a document is, reading it ends, and the registry takes what comes of it.
func FuzzDocument(f *testing.F) {
	f.Add(`{"openapi":"3.1.0","paths":{"/a/{b}":{"get":{"operationId":"x","parameters":[{"name":"b","in":"path","schema":{"type":"string"}}]}}}}`)
	f.Add("openapi: 3.0.0\npaths:\n  /a:\n    post: {requestBody: {content: {application/json: {schema: {oneOf: [{type: string}, {$ref: '#/components/schemas/A'}]}}}}}\n")
	f.Add(`{"openapi":"3.","paths":{"x":{"get":{"parameters":[{"$ref":"#/components/a/b"}]}}},"components":{"a":{"b":{"$ref":"#/components/a/b"}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		normal, err := normalized([]byte(text))
		if err != nil {
			return
		}
		d, err := parseDocument(normal)
		if err != nil {
			return
		}
		tools, total := d.operations(&filter{})
		if len(tools) > total || total > maxOperations {
			t.Errorf("%d tools of %d operations", len(tools), total)
		}
		for _, o := range tools {
			if !jsontext.Value(o.Parameters).IsValid() {
				t.Errorf("%s", o.Parameters)
			}
		}
	})
}

// A template is filled as far as there are arguments.
func TestFill(t *testing.T) {
	t.Parallel()
	args := map[string]jsontext.Value{"a": jsontext.Value(`"x \"y\""`), "n": jsontext.Value(`7`), "l": jsontext.Value(`["p","q"]`), "z": jsontext.Value(`null`)}
	for template, want := range map[string]string{
		`{"t":"{a}","n":"{n}"}`:                      `{"n":7,"t":"x \"y\""}`,
		`{"t":"{b}"}`:                                `{}`,
		`{"fixed":"yes","t":"{z}"}`:                  `{"fixed":"yes"}`,
		`{"o":{"kind":"doc","c":["{b}"]},"a":"{a}"}`: `{"a":"x \"y\""}`,
		`{"o":{"kind":"doc","c":["{a}","{b}"]}}`:     `{"o":{"c":["x \"y\""],"kind":"doc"}}`,
		`["{l}",1]`:                                  `[["p","q"],1]`,
		`{"q":"query { x }"}`:                        `{"q":"query { x }"}`,
		`"{l}"`:                                      `["p","q"]`,
	} {
		got, err := fill(jsontext.Value(template), args)
		if err != nil {
			t.Errorf("%s: %v", template, err)
		}
		if diff := cmp.Diff(want, string(got.value)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", template, diff)
		}
	}
}

func TestNextPage(t *testing.T) {
	t.Parallel()
	for link, want := range map[string]string{
		"": "", `<https://a.example/x?page=3&q=a%20b>; rel="next"`: "page=3&q=a%20b", `</x?p=1>; rel="prev", </x?p=3>; rel=next`: "p=3",
		`<::>; rel="next"`: "", `<>; rel="last"`: "",
	} {
		if got := nextPage(link); got != want {
			t.Errorf("%s: %q, want %q", link, got, want)
		}
	}
}

// Every connector of the program is complete: its tools compile, its paths and bodies
// name arguments that exist, and its credential is a field.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	for _, c := range builtIn.all {
		if got := compiled(t, c.Operations); got != len(c.Operations) {
			t.Errorf("%s: %d of %d tools compile", c.ID, got, len(c.Operations))
		}
		for _, o := range c.Operations {
			var s struct {
				Properties map[string]any `json:"properties"`
			}
			if err := json.Unmarshal([]byte(o.Parameters), &s); err != nil {
				t.Fatal(err)
			}
			used := placeholders(o.Call.Path)
			for _, arg := range o.Call.Query {
				used = append(used, arg)
			}
			for _, arg := range o.Call.Header {
				used = append(used, arg)
			}
			used = append(used, placeholdersOfBody(o.Call.Body)...)
			for _, arg := range used {
				if _, known := s.Properties[arg]; !known && !strings.HasPrefix(arg, "=") {
					t.Errorf("%s: %s has no argument %q", c.ID, o.Name, arg)
				}
			}
			for arg := range s.Properties {
				if c.api != nil && !slices.Contains(used, arg) && !strings.Contains(string(o.Call.Body), mailTemplate) {
					t.Errorf("%s: the argument %s of %s does nothing", c.ID, arg, o.Name)
				}
			}
		}
		if c.api == nil || c.ID == connectorHTTP {
			continue
		}
		for _, field := range append(c.api.Basic, c.api.Credential.Field) {
			if _, known := c.ConfigSchema[field]; field != "" && !known {
				t.Errorf("%s has no field %s", c.ID, field)
			}
		}
		if c.api.Test == nil || c.AuthType == authOAuth && c.api.OAuth == nil {
			t.Errorf("%s cannot be tested or authorized", c.ID)
		}
	}
}

// placeholdersOfBody returns the arguments that a template names.
func placeholdersOfBody(body jsontext.Value) (names []string) {
	var v any
	if len(body) == 0 || json.Unmarshal(body, &v) != nil {
		return nil
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			if strings.HasPrefix(v, "{") && strings.HasSuffix(v, "}") && v != mailTemplate {
				names = append(names, v[1:len(v)-1])
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			for _, item := range v {
				walk(item)
			}
		}
	}
	walk(v)
	return names
}
