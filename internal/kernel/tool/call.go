package tool

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
)

// Call makes a model's call. The only error is the context's, when it ends
// before the tool does; whatever else goes wrong is a failed result. A tool
// that does not heed its timeout is left behind and its result lost; where too
// many were left behind no further call is begun.
func (s Set) Call(ctx context.Context, call Call) (Result, error) {
	e := s.find(call.Name)
	if e == nil {
		return s.unknown(call.Name), ctx.Err()
	}
	if len(call.Arguments) > s.limits.Arguments {
		return Failure(fmt.Sprintf("The arguments are longer than %d bytes.", s.limits.Arguments)), ctx.Err()
	}
	if strings.TrimSpace(call.Arguments) == "" {
		call.Arguments = "{}"
	}
	result, err := e.run(ctx, call)
	if err != nil {
		return Result{}, err
	}
	result.Files = bounded(result.Files)
	s.cut(&result, call)
	result.Output = strings.ToValidUTF8(result.Output, "\uFFFD") // journals and models take nothing else
	return result, nil
}

// run bounds the time of a call and stands between a tool's panic and the
// process.
func (e *entry) run(parent context.Context, call Call) (Result, error) {
	key, this := leftKey{call.TenantID, e.Name}, new(leftCall)
	if e.left.full(key) {
		return Failure("The call was not made: too many earlier calls of this tool have not ended. Go on without it."), parent.Err()
	}
	ctx, cancel := context.WithTimeout(parent, e.Timeout)
	defer cancel()
	done := make(chan Result, 1)
	go func() {
		defer e.left.end(key, this)
		defer func() {
			if p := recover(); p != nil {
				r := Failure("The tool failed because of a defect in it.")
				r.Cause = fmt.Errorf("tool %s: panic: %v\n%s", e.Name, p, debug.Stack())
				done <- r
			}
		}()
		// Schemas come from outside too, so what they cost counts.
		if problem := e.validate(call.Arguments); problem != "" {
			done <- Failure(problem)
			return
		}
		result, err := e.Run(ctx, call)
		if err != nil {
			result = e.failed(err)
		}
		done <- result
	}()
	select {
	case result := <-done:
		if errors.Is(result.Cause, context.DeadlineExceeded) && ctx.Err() != nil && parent.Err() == nil {
			return e.late(), nil
		}
		return result, parent.Err()
	case <-ctx.Done():
		e.left.leave(key, this)
		if err := parent.Err(); err != nil {
			return Result{}, err
		}
		return e.late(), nil
	}
}

func (e *entry) failed(err error) Result {
	r := Failure("The tool failed.")
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Kind != fault.Internal {
		r.Output = f.Detail
	}
	r.Cause = fmt.Errorf("tool %s: %w", e.Name, err)
	return r
}

func (e *entry) late() Result {
	r := Failure(fmt.Sprintf("The tool did not answer within %v.", e.Timeout))
	if !e.ReadOnly {
		r.Output += " Whether it took effect is unknown."
	}
	r.Cause = fmt.Errorf("tool %s: %w", e.Name, context.DeadlineExceeded)
	return r
}

// Bounds of the files of one call.
const (
	maxFiles = 20
	// MaxFile is how large a file may be that a call leaves with its run; a
	// result that is longer is cut there.
	MaxFile = 50 << 20
)

// bounded leaves out what a call may not leave behind.
func bounded(files []File) []File {
	files = slices.DeleteFunc(files, func(f File) bool { return len(f.Data) > MaxFile })
	return files[:min(len(files), maxFiles)]
}

// cut bounds what a result costs: it stays in the conversation. What is longer
// goes whole into a file of the run, whose name the model is told.
func (s Set) cut(r *Result, call Call) {
	if len(r.Output) <= s.limits.Output {
		return
	}
	size, shown := len(r.Output), atRune(r.Output, s.limits.Output)
	kept := atRune(r.Output, MaxFile)
	f := File{Name: fileName(call), MimeType: "text/plain; charset=utf-8", Data: []byte(r.Output[:kept])}
	if jsontext.Value(f.Data).IsValid() {
		f.Name, f.MimeType = f.Name+".json", "application/json"
	} else {
		f.Name += ".txt"
	}
	whole := "all of it is"
	if kept < size {
		whole = fmt.Sprintf("the first %d are", kept)
	}
	// The head is copied, so that the rest is not held in memory with it.
	r.Output = fmt.Sprintf("%s\n[cut off: the result has %d bytes, of which these are the first %d; %s in this run's artifact %s]",
		r.Output[:shown], size, shown, whole, f.Name)
	r.Files = append(r.Files, f)
}

// atRune is the last place up to most at which a text can be cut.
func atRune(text string, most int) int {
	if len(text) <= most {
		return len(text)
	}
	for back := range min(utf8.UTFMax, most) {
		if utf8.RuneStart(text[most-back]) {
			return most - back
		}
	}
	return most // it is no text
}

// fileName tells which call a result is of. The id is the model's, and may be
// anything.
func fileName(call Call) string {
	const most = 64
	id := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, call.ID)
	return call.Name + "-" + id[:min(len(id), most)]
}
