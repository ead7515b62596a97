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
	"agentd/internal/kernel/model"
)

// Call makes a model's call. The only error is that of ctx, if it ends before the
// tool returns; every other problem is a failed result. A tool that does not
// return when its timeout ends is left running in the background, and its
// result is lost. If too many calls were left running, further ones are refused.
func (s Set) Call(ctx context.Context, call Call) (Result, error) {
	e := s.find(call.Name)
	if e == nil {
		return s.unknown(call.Name), ctx.Err()
	}
	if s.limits.disabled(call.Name) {
		return Failure(fmt.Sprintf("The operator of this service has switched off the tool %s.", call.Name)), ctx.Err()
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
	result.Files = boundFiles(result.Files)
	s.truncate(&result, call)
	result.Output = strings.ToValidUTF8(result.Output, "\uFFFD") // journals and models accept nothing else
	return result, nil
}

// run bounds the time of a call, and recovers from a panic of the tool.
func (e *entry) run(parent context.Context, call Call) (Result, error) {
	key, this := orphanKey{call.TenantID, e.Name}, new(trackedCall)
	if e.orphans.full(key) {
		return Failure("The call was not made: too many earlier calls of this tool have not ended. Go on without it."), parent.Err()
	}
	ctx, cancel := context.WithTimeout(parent, e.Timeout)
	defer cancel()
	done := make(chan Result, 1)
	go func() {
		defer e.orphans.end(key, this)
		defer func() {
			if p := recover(); p != nil {
				r := Failure("The tool failed because of a defect in it.")
				r.Cause = fmt.Errorf("tool %s: panic: %v\n%s", e.Name, p, debug.Stack())
				done <- r
			}
		}()
		// Schemas may come from outside, so checking counts toward the timeout.
		if problem := e.validate(call.Arguments); problem != "" {
			done <- Failure(problem)
			return
		}
		result, err := e.Run(ctx, call)
		if err != nil {
			result = e.failed(err)
		}
		if e.Source != "" {
			result.Sources = model.JoinSources(result.Sources, []string{e.Source})
		}
		done <- result
	}()
	select {
	case result := <-done:
		if errors.Is(result.Cause, context.DeadlineExceeded) && ctx.Err() != nil && parent.Err() == nil {
			return e.timedOut(), nil
		}
		return result, parent.Err()
	case <-ctx.Done():
		e.orphans.add(key, this)
		if err := parent.Err(); err != nil {
			return Result{}, err
		}
		return e.timedOut(), nil
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

func (e *entry) timedOut() Result {
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
	// MaxFile is the maximum size in bytes of a file of a call. A longer result
	// is cut there.
	MaxFile = 50 << 20
)

// boundFiles removes files that are too large or too many.
func boundFiles(files []File) []File {
	files = slices.DeleteFunc(files, func(f File) bool { return len(f.Data) > MaxFile })
	return files[:min(len(files), maxFiles)]
}

// truncate shortens a result that is too long for the conversation. The whole
// result goes into a file of the run, which the shortened one names.
func (s Set) truncate(r *Result, call Call) {
	if len(r.Output) <= s.limits.Output {
		return
	}
	size, shown := len(r.Output), runeBoundary(r.Output, s.limits.Output)
	kept := runeBoundary(r.Output, MaxFile)
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

// runeBoundary returns the last index up to limit at which a text can be cut
// without splitting a rune.
func runeBoundary(text string, limit int) int {
	if len(text) <= limit {
		return len(text)
	}
	for back := range min(utf8.UTFMax, limit) {
		if utf8.RuneStart(text[limit-back]) {
			return limit - back
		}
	}
	return limit // it is not UTF-8
}

// fileName returns a name with the tool and the id of the call. The id comes from
// the model and may be any text.
func fileName(call Call) string {
	const maxID = 64
	id := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, call.ID)
	return call.Name + "-" + id[:min(len(id), maxID)]
}
