package jsengine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// limit is enough for all code that ends, also on a busy machine.
const limit = 20 * time.Second

// engine is compiled once for the tests that do not look at that.
var engine Engine

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { engine.Close(); os.Exit(code) }))
}

// files is a Host in memory.
type files struct {
	kept    map[string]string
	printed []string
}

func (f *files) Read(path string) (string, error) {
	if text, ok := f.kept[path]; ok {
		return text, nil
	}
	return "", fmt.Errorf("there is no file %s", path)
}

func (f *files) Write(path, text string) error { f.kept[path] = text; return nil }
func (f *files) List() (string, error)         { return `["a.csv"]`, nil }
func (f *files) Print(line string)             { f.printed = append(f.printed, line) }

// TestRun runs code of every kind: values, files, output, promises and what it throws.
func TestRun(t *testing.T) {
	t.Parallel()
	e := &engine
	for code, want := range map[string]Outcome{
		`1 + 2`: {Result: "3"},
		`const rows = readFile("a.csv").split("\n").map(Number); rows.reduce((a, b) => a + b)`: {Result: "6"},
		`writeFile("b.txt", "ü\u0000x"); readFile("b.txt").length`:                             {Result: "3"},
		`listFiles()[0]`: {Result: "a.csv"},
		`console.log("hello", {a: [1]}, 2n); undefined`:                  {},
		`(async () => { await 1; return [await 2n] })()`:                 {Result: "[\n  \"2\"\n]"},
		`new Map([[1, "x"]])`:                                            {Result: "[\n  [\n    1,\n    \"x\"\n  ]\n]"},
		`typeof fetch + typeof require + typeof process + typeof __host`: {Result: strings.Repeat("undefined", 4)},
		`Promise.reject("no")`:                                           {Error: "no"},
		`try { readFile("../x") } catch (e) { e.message }`:               {Result: "there is no file ../x"},
		`try { await import("fs") } catch {}`:                            {Error: "SyntaxError"},
	} {
		f := &files{kept: map[string]string{"a.csv": "1\n2\n3"}}
		got, err := e.Run(t.Context(), code, limit, f)
		if err != nil || got.Result != want.Result || !strings.HasPrefix(got.Error, want.Error) || (want.Error == "") != (got.Error == "") {
			t.Errorf("%s: %+v, %v", code, got, err)
		}
	}
	f := &files{kept: map[string]string{}}
	if _, err := e.Run(t.Context(), `console.log("a", 1); console.error({b: 2})`, limit, f); err != nil || strings.Join(f.printed, "|") != "a 1|{\n  \"b\": 2\n}" {
		t.Errorf("%q, %v", f.printed, err)
	}
	if got, err := e.Run(t.Context(), `globalThis.left = 1`, limit, f); err != nil || got.Result != "1" {
		t.Error(got, err)
	}
	if got, err := e.Run(t.Context(), `typeof left`, limit, f); err != nil || got.Result != "undefined" {
		t.Errorf("a piece of code sees what another one left: %v, %v", got, err)
	}
}

// TestHostileCode ends: code that does not, that fills memory, and that calls itself.
func TestHostileCode(t *testing.T) {
	t.Parallel()
	e := &engine
	if _, err := e.Run(t.Context(), `1`, limit, &files{}); err != nil { // compiles
		t.Fatal(err)
	}
	for name, code := range map[string]string{
		"endless":          `for (;;) {}`,
		"endless, caught":  `for (;;) { try { for (;;) {} } catch {} }`,
		"endless promises": `const f = () => Promise.resolve().then(f); f()`,
		"expression":       `/^(a+)+$/.test("a".repeat(40) + "b")`,
		"sorting":          `for (;;) Array.from({length: 1e5}, Math.random).sort()`,
	} {
		began := time.Now()
		got, err := e.Run(t.Context(), code, 200*time.Millisecond, &files{})
		if took := time.Since(began); !errors.Is(err, ErrTime) || took > 10*time.Second {
			t.Errorf("%s: %+v, %v after %v", name, got, err, took)
		}
	}
	for name, code := range map[string]string{
		"memory":    `const a = []; for (;;) a.push("x".repeat(1e6) + a.length)`,
		"recursion": `const f = () => f() + 1; f()`,
		"buffer":    `new ArrayBuffer(2**31)`,
		"long text": `"x".repeat(2**29)`,
	} {
		got, err := e.Run(t.Context(), code, limit, &files{})
		if !errors.Is(err, ErrMemory) && (err != nil || got.Error == "") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got, err := e.Run(t.Context(), `6 * 7`, limit, &files{}); err != nil || got.Result != "42" {
		t.Errorf("after all of it: %v, %v", got, err)
	}
}

// TestMemoryIsGivenBack compiles the engine when it is needed, again after it was given
// back.
func TestMemoryIsGivenBack(t *testing.T) {
	t.Parallel()
	e := &Engine{}
	for range 2 {
		if e.runtime != nil {
			t.Error("the engine is kept though nobody uses it")
		}
		if got, err := e.Run(t.Context(), `1`, limit, &files{}); err != nil || got.Result != "1" {
			t.Error(got, err)
		}
		e.discard()
	}
	e.Close()
	if _, err := e.Run(t.Context(), `1`, limit, &files{}); err == nil {
		t.Error("a closed engine runs code")
	}
}

// TestLimitIsOfTheCode compiles for longer than the code may take: that is no time of the
// code. A request that ends ends the code too.
func TestLimitIsOfTheCode(t *testing.T) {
	t.Parallel()
	e := &Engine{}
	defer e.Close()
	began := time.Now()
	if _, _, err := e.acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.release()
	compiled := time.Since(began)
	e.discard()
	if got, err := e.Run(t.Context(), `1`, compiled/2, &files{}); err != nil || got.Result != "1" {
		t.Errorf("the first piece of code: %v, %v", got, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := e.Run(ctx, `for (;;) {}`, limit, &files{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("code whose request ended: %v", err)
	}
	cancel()
	if _, err := e.Run(ctx, `1`, limit, &files{}); err == nil {
		t.Error("code begins for a request that has ended")
	}
}

// BenchmarkWarm measures a start when the engine is compiled.
func BenchmarkWarm(b *testing.B) {
	e := &engine
	if _, err := e.Run(b.Context(), `1`, limit, &files{}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := e.Run(b.Context(), `1`, limit, &files{}); err != nil {
			b.Fatal(err)
		}
	}
}
