package jsengine

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/tetratelabs/wazero/api"
)

// The errors of WASI.
const (
	done       = 0
	badHandle  = 8
	notThere   = 52
	badAddress = 21
)

// system is what the engine gets of WASI.
var system = map[string]any{
	"clock_time_get": func(_ context.Context, m api.Module, _ uint32, _ uint64, at uint32) uint32 {
		if !m.Memory().WriteUint64Le(at, uint64(time.Now().UnixNano())) {
			return badAddress
		}
		return done
	},
	"random_get": func(_ context.Context, m api.Module, at, n uint32) uint32 {
		buf, ok := m.Memory().Read(at, n)
		if !ok {
			return badAddress
		}
		_, _ = rand.Read(buf) // never fails
		return done
	},
	"fd_close":      func(uint32) uint32 { return notThere },
	"fd_fdstat_get": func(uint32, uint32) uint32 { return badHandle },
	"fd_seek":       func(uint32, uint64, uint32, uint32) uint32 { return notThere },
	"fd_write":      func(uint32, uint32, uint32, uint32) uint32 { return badHandle },
}

type sessionKey struct{}

// session is the run of one piece of code.
type session struct {
	host  Host
	code  string
	out   *Outcome
	ended bool
}

// failure returns why an instance failed.
func (s *session) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(ErrMemory, err)
}

// exports calls a function of the instance that returns one number or none.
func invoke(ctx context.Context, m api.Module, name string, args ...uint64) (uint32, error) {
	got, err := m.ExportedFunction(name).Call(ctx, args...)
	if err != nil || len(got) == 0 {
		return 0, err
	}
	return uint32(got[0]), nil
}

// place puts a text, with a zero behind it, into the instance.
func place(ctx context.Context, m api.Module, text string) (uint32, error) {
	at, err := invoke(ctx, m, "wasm_malloc", uint64(len(text)+1))
	if err != nil {
		return 0, err
	}
	if at == 0 || !m.Memory().WriteString(at, text) || !m.Memory().WriteByte(at+uint32(len(text)), 0) {
		return 0, ErrMemory
	}
	return at, nil
}

// run evaluates the prelude, which evaluates the code, and what it promised.
func (s *session) run(ctx context.Context, m api.Module) error {
	if failed, err := invoke(ctx, m, "qjs_init"); err != nil || failed != 0 {
		return errors.Join(ErrMemory, err)
	}
	for name, value := range map[string]uint64{
		"qjs_set_memory_limit": heapBytes, "qjs_set_max_stack_size": stackBytes, "qjs_set_interrupt_handler": 1,
	} {
		if _, err := invoke(ctx, m, name, value); err != nil {
			return err
		}
	}
	if err := s.giveHost(ctx, m); err != nil {
		return err
	}
	text, err := place(ctx, m, prelude)
	if err != nil {
		return err
	}
	name, err := place(ctx, m, "agentd")
	if err != nil {
		return err
	}
	if _, err := invoke(ctx, m, "qjs_eval", uint64(text), uint64(len(prelude)), uint64(name), 0); err != nil {
		return err
	}
	for {
		switch pending, err := invoke(ctx, m, "qjs_is_job_pending"); {
		case err != nil:
			return err
		case pending == 0:
			if !s.ended {
				return ErrMemory // what the prelude catches would have been told
			}
			return nil
		}
		if _, err := invoke(ctx, m, "qjs_execute_pending_job"); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// giveHost sets the function __host, which the prelude takes away again.
func (s *session) giveHost(ctx context.Context, m api.Module) error {
	const name = "__host"
	at, err := place(ctx, m, name)
	if err != nil {
		return err
	}
	f, err := invoke(ctx, m, "qjs_new_host_function", uint64(at), uint64(len(name)), 0)
	if err != nil {
		return err
	}
	global, err := invoke(ctx, m, "qjs_get_global")
	if err != nil {
		return err
	}
	_, err = invoke(ctx, m, "qjs_set_prop_string", uint64(global), uint64(at), uint64(f))
	return err
}

// call answers a call of __host(operation, a, b): "+" and a text, or "-" and what is
// wrong.
func (s *session) call(ctx context.Context, m api.Module, argc, argv uint32) uint32 {
	var args [3]string
	for i := range min(argc, 3) {
		value, ok := m.Memory().ReadUint32Le(argv + 4*i)
		if !ok {
			break
		}
		args[i] = read(ctx, m, value)
	}
	text, err := s.answer(args[0], args[1], args[2])
	if text = "+" + text; err != nil {
		text = "-" + err.Error()
	}
	at, err := place(ctx, m, text)
	if err != nil {
		panic(err) // wazero returns it to whoever called the code
	}
	made, err := invoke(ctx, m, "qjs_new_string", uint64(at), uint64(len(text)))
	if err == nil {
		_, err = invoke(ctx, m, "wasm_free", uint64(at))
	}
	if err != nil {
		panic(err)
	}
	return made
}

func (s *session) answer(operation, a, b string) (string, error) {
	switch operation {
	case "code":
		return s.code, nil
	case "print":
		s.host.Print(a)
	case "read":
		return s.host.Read(a)
	case "list":
		return s.host.List()
	case "write":
		return "", s.host.Write(a, b)
	case "result":
		s.out.Result, s.ended = a, true
	case "error":
		s.out.Error, s.ended = a, true
		if a == "" {
			s.out.Error = "The code threw nothing that can be shown."
		}
	}
	return "", nil
}

// read returns the text of a value; "" if it has none.
func read(ctx context.Context, m api.Module, value uint32) string {
	length, err := invoke(ctx, m, "wasm_malloc", 4)
	if err != nil || length == 0 {
		return ""
	}
	at, err := invoke(ctx, m, "qjs_get_string_len", uint64(value), uint64(length))
	if err != nil || at == 0 {
		return ""
	}
	n, _ := m.Memory().ReadUint32Le(length)
	view, ok := m.Memory().Read(at, n)
	text := string(view) // a copy: the memory is the instance's
	if _, err := invoke(ctx, m, "qjs_free_cstring", uint64(at)); err != nil || !ok {
		return ""
	}
	_, _ = invoke(ctx, m, "wasm_free", uint64(length))
	return text
}
