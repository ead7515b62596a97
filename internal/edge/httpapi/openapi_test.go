package httpapi

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// at follows a path into a document.
func at(t *testing.T, doc any, path ...string) any {
	t.Helper()
	for _, name := range path {
		object, ok := doc.(map[string]any)
		if !ok || object[name] == nil {
			t.Fatalf("there is no %s in %v", name, path)
		}
		doc = object[name]
	}
	return doc
}

func TestOpenAPI(t *testing.T) {
	t.Parallel()
	first, err := OpenAPI(toys(nil), raws())
	if err != nil {
		t.Fatal(err)
	}
	second, err := OpenAPI(toys(nil), raws())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("the document differs from one time to the next")
	}
	var doc map[string]any
	if err := json.Unmarshal(first, &doc); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		value any
		path  []string
	}{
		{"3.1.0", []string{"openapi"}},
		{"0.2.0", []string{"info", "version"}},
		{"MIT", []string{"info", "license", "name"}},
		{"getToy", []string{"paths", "/api/v1/toys/{toyId}", "get", "operationId"}},
		{[]any{"Toys"}, []string{"paths", "/api/v1/toys/{toyId}", "get", "tags"}},
		{"#/components/schemas/ToySpec", []string{"paths", "/api/v1/toys", "post", "requestBody", "content", "application/json", "schema", "$ref"}},
		{"#/components/schemas/Toy", []string{"paths", "/api/v1/toys", "post", "responses", "201", "content", "application/json", "schema", "$ref"}},
		{"#/components/responses/ValidationError", []string{"paths", "/api/v1/toys", "post", "responses", "422", "$ref"}},
		{"#/components/schemas/Problem", []string{"components", "responses", "ValidationError", "content", "application/problem+json", "schema", "$ref"}},
		{"#/components/responses/TooManyRequests", []string{"paths", "/api/v1/toys/{toyId}", "get", "responses", "429", "$ref"}},
		{"#/components/headers/XRateLimitRemaining", []string{"paths", "/api/v1/toys", "post", "responses", "201", "headers", "X-RateLimit-Remaining", "$ref"}},
		{"#/components/headers/XRateLimitReset", []string{"components", "responses", "TooManyRequests", "headers", "X-RateLimit-Reset", "$ref"}},
		{[]any{"tenant", "api_key", "endpoint"}, []string{"components", "responses", "TooManyRequests", "headers", "X-RateLimit-Bucket", "schema", "enum"}},
		{"integer", []string{"components", "responses", "TooManyRequests", "headers", "Retry-After", "schema", "type"}},
		{"string", []string{"paths", "/api/v1/toys/{toyId}/events", "get", "responses", "200", "content", "text/event-stream", "schema", "type"}},
		{true, []string{"paths", "/api/v1/old-toys/{oldId}", "get", "deprecated"}},
		{"object", []string{"paths", "/api/v1/toys/{toyId}", "patch", "requestBody", "content", "application/json", "schema", "type"}},
		{"Needs the role admin or higher.", []string{"paths", "/api/v1/admin", "get", "description"}},
		{"getHealthz", []string{"paths", "/healthz", "get", "operationId"}},
		{"createMessage", []string{"paths", "/v1/messages", "post", "operationId"}},
		{[]any{map[string]any{"bearerAuth": []any{"agents:write"}}, map[string]any{"cookieAuth": []any{"agents:write"}}, map[string]any{"sessionAuth": []any{"agents:write"}}}, []string{"paths", "/api/v1/toys", "post", "security"}},
		{[]any{}, []string{"paths", "/api/v1/public", "get", "security"}},
	} {
		if diff := cmp.Diff(want.value, at(t, doc, want.path...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", strings.Join(want.path, " "), diff)
		}
	}
	if _, required := at(t, doc, "paths", "/api/v1/toys/{toyId}", "patch", "requestBody", "content", "application/json", "schema").(map[string]any)["required"]; required {
		t.Error("a partial body has required fields")
	}
	if diff := cmp.Diff([]any{"name"}, at(t, doc, "components", "schemas", "ToySpec", "required")); diff != "" {
		t.Error(diff)
	}
	params := at(t, doc, "paths", "/api/v1/toys", "get", "parameters").([]any)
	if len(params) != 6 || at(t, params[0], "schema", "type") != "integer" {
		t.Errorf("%d parameters, the first %v", len(params), params[0])
	}
	refs(t, doc, doc)
}

// refs checks that every reference leads somewhere.
func refs(t *testing.T, doc map[string]any, v any) {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			at(t, doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
		for _, child := range v {
			refs(t, doc, child)
		}
	case []any:
		for _, child := range v {
			refs(t, doc, child)
		}
	}
}

func TestDocumentIsServedWithoutAKey(t *testing.T) {
	t.Parallel()
	w := start(t)
	made, err := w.edge.document.made()
	if err != nil {
		t.Fatal(err)
	}
	want, err := unpack(made.gzip)
	if err != nil {
		t.Fatal(err)
	}
	res, body := w.call(t, "GET", "/api/v1/openapi.json", "", header("Authorization", ""))
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/json" || body != string(want) {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
}
