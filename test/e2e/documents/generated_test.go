package documents

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// The OpenAPI document that a server serves makes clients that compile strictly and
// work: in Go by oapi-codegen, in TypeScript by hey-api and openapi-typescript.
// `make test-generated` installs the generators where AGENTD_TEST_GENERATED says;
// without it the test is skipped.
func TestGeneratedClients(t *testing.T) {
	t.Parallel()
	tools := os.Getenv("AGENTD_TEST_GENERATED")
	if tools == "" {
		t.Skip("AGENTD_TEST_GENERATED names no directory with the generators; make test-generated does")
	}
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(func(modeltest.Request) modeltest.Answer {
		return modeltest.Answer{Text: "Hello from the model."}
	})))
	work := filepath.Join(tools, "work") // beside node_modules, where imports are looked up
	if err := os.RemoveAll(work); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(work, os.DirFS("../../generated")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(work, "openapi.json"), n.Do("GET", "/api/v1/openapi.json", nil).Body, 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "AGENTD_URL="+n.URL, "AGENTD_KEY="+n.Key, "GOFLAGS=-mod=mod", "GOWORK=off")
	run := func(dir string, command ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
		}
		return string(out)
	}
	bin := filepath.Join(tools, "node_modules", ".bin")

	run(work, filepath.Join(bin, "openapi-ts"), "-i", "openapi.json", "-o", "client", "-c", "@hey-api/client-fetch")
	// Without the flag it takes fields with a default for required, in requests too.
	run(work, filepath.Join(bin, "openapi-typescript"), "openapi.json", "-o", "types.ts", "--default-non-nullable", "false")
	run(work, filepath.Join(bin, "tsc"), "-p", ".", "--noEmit")
	if err := writeLoader(work); err != nil {
		t.Fatal(err)
	}
	run(work, filepath.Join(bin, "tsc"), "-p", ".")
	if out := run(work, "node", "--import", "./loader.mjs", "out/calls.js"); !strings.Contains(out, "12 operations") {
		t.Errorf("the TypeScript client prints %q", out)
	}

	golang := filepath.Join(work, "_go")
	if err := os.MkdirAll(filepath.Join(golang, "api"), 0o700); err != nil {
		t.Fatal(err)
	}
	run(golang, filepath.Join(tools, "bin", "oapi-codegen"), "-config", "../oapi-codegen.yaml", "../openapi.json")
	run(golang, "go", "mod", "init", "generated")
	run(golang, "go", "get", "github.com/oapi-codegen/runtime@v1.8.0", "github.com/google/uuid@v1.6.0")
	run(golang, "go", "build", "-o", "calls", ".")
	if out := run(golang, "./calls"); !strings.Contains(out, "12 operations") {
		t.Errorf("the Go client prints %q", out)
	}
}

// writeLoader writes the hook by which node finds the generated modules, whose imports
// have no extension, as bundlers take them.
func writeLoader(dir string) error {
	const loader = `import { register } from "node:module";
register("data:text/javascript," + encodeURIComponent(` + "`" + `
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
export async function resolve(specifier, context, next) {
  if (specifier.startsWith(".") && !specifier.endsWith(".js")) {
    const at = new URL(specifier, context.parentURL);
    for (const end of [".js", "/index.js"]) if (existsSync(fileURLToPath(at) + end)) return next(specifier + end, context);
  }
  return next(specifier, context);
}` + "`" + `));
`
	return os.WriteFile(filepath.Join(dir, "loader.mjs"), []byte(loader), 0o600)
}
