// Package jsengine runs JavaScript in WebAssembly: QuickJS, which reaches nothing but what
// its caller gives it. There is no network, no file system and no process in it.
//
// The engine is compiled when it is used first and given back when it was not used for a
// while, so that a server that runs no code has no memory for it. Each piece of code gets
// an instance of its own.
package jsengine

import (
	"context"
	_ "embed"
	"errors"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

//go:embed quickjs.wasm
var binary []byte

//go:embed prelude.js
var prelude string

// Bounds of one piece of code.
const (
	memoryPages = 1024     // of 64 KiB: all of an instance
	heapBytes   = 48 << 20 // of JavaScript's values
	stackBytes  = 256 << 10
	keptFor     = 5 * time.Minute
)

// The ways in which code ends without a result.
var (
	ErrTime   = errors.New("the code ran out of time")
	ErrMemory = errors.New("the code ran out of memory, or its calls are too deep")
)

// Host is what the code can reach. Its errors are thrown in the code.
type Host interface {
	Read(path string) (string, error)
	Write(path, text string) error
	List() (string, error) // a JSON array of paths
	Print(line string)
}

// Outcome is what became of a piece of code.
type Outcome struct {
	Result string // the value of its last expression, as text; "" for undefined
	Error  string // what it threw; "" if it threw nothing
}

// Engine runs code. The zero value is ready.
type Engine struct {
	mu      sync.Mutex
	runtime wazero.Runtime
	code    wazero.CompiledModule
	using   int
	timer   *time.Timer
	closed  bool
}

// Run runs code until it ends, limit has passed or ctx ends. The limit is the code's own: it
// begins when the engine is compiled. Errors: ErrTime, ErrMemory, ctx.Err().
func (e *Engine) Run(ctx context.Context, code string, limit time.Duration, host Host) (*Outcome, error) {
	runtime, compiled, err := e.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer e.release()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrTime)
	defer cancel()
	s := &session{host: host, code: code, out: &Outcome{}}
	ctx = context.WithValue(ctx, sessionKey{}, s)
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize")
	m, err := runtime.InstantiateModule(ctx, compiled, config)
	if err != nil {
		return nil, s.failure(ctx, err)
	}
	defer m.Close(context.WithoutCancel(ctx))
	if err := s.run(ctx, m); err != nil {
		return nil, s.failure(ctx, err)
	}
	return s.out, nil
}

// acquire returns the compiled engine, for one more user.
func (e *Engine) acquire(ctx context.Context) (wazero.Runtime, wazero.CompiledModule, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, nil, errors.New("jsengine: the engine is closed")
	}
	if e.runtime == nil {
		// What is compiled outlives the request that needed it first.
		if err := e.compile(context.WithoutCancel(ctx)); err != nil {
			return nil, nil, err
		}
	}
	if e.timer != nil {
		e.timer.Stop()
	}
	e.using++
	return e.runtime, e.code, nil
}

func (e *Engine) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.using--; e.using == 0 {
		e.timer = time.AfterFunc(keptFor, e.discard)
	}
}

// discard frees the memory of the compiled engine if nobody uses it.
func (e *Engine) discard() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.using > 0 || e.runtime == nil {
		return
	}
	_ = e.runtime.Close(context.Background()) // it is memory alone
	e.runtime, e.code = nil, nil
}

// Close frees the memory. Code that runs is cut off.
func (e *Engine) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.timer != nil {
		e.timer.Stop()
	}
	if e.runtime != nil {
		_ = e.runtime.Close(context.Background())
		e.runtime, e.code = nil, nil
	}
}

func (e *Engine) compile(ctx context.Context) error {
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithMemoryLimitPages(memoryPages).WithCloseOnContextDone(true))
	code, err := r.CompileModule(ctx, binary)
	if err == nil {
		err = provide(ctx, r)
	}
	if err != nil {
		return errors.Join(err, r.Close(ctx))
	}
	e.runtime, e.code = r, code
	return nil
}

// provide makes what the engine imports. Of WASI it gets the clock and random bytes.
func provide(ctx context.Context, r wazero.Runtime) error {
	env := r.NewHostModuleBuilder("env")
	for name, f := range map[string]any{
		"host_get_timezone_offset": func(int32, int32) int32 { return 0 },
		"host_interrupt": func(ctx context.Context) int32 {
			if ctx.Err() != nil {
				return 1
			}
			return 0
		},
		"host_promise_rejection": func(int32, int32, int32) {},
		"host_module_normalize":  func(int32, int32) int32 { return 0 },
		"host_module_load":       func(int32, int32) int32 { return 0 },
		"host_call": func(ctx context.Context, m api.Module, _, _, _, argc, argv uint32) uint32 {
			s, _ := ctx.Value(sessionKey{}).(*session)
			return s.call(ctx, m, argc, argv)
		},
	} {
		env.NewFunctionBuilder().WithFunc(f).Export(name)
	}
	if _, err := env.Instantiate(ctx); err != nil {
		return err
	}
	wasi := r.NewHostModuleBuilder("wasi_snapshot_preview1")
	for name, f := range system {
		wasi.NewFunctionBuilder().WithFunc(f).Export(name)
	}
	_, err := wasi.Instantiate(ctx)
	return err
}
