package tool

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"agentd/internal/fault"
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
	result.Output = strings.ToValidUTF8(result.Output, "\uFFFD") // journals and models take nothing else
	result.Output = s.cut(result.Output)
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

// cut bounds what a result costs: it stays in the conversation.
func (s Set) cut(output string) string {
	if len(output) <= s.limits.Output {
		return output
	}
	end := s.limits.Output
	for end > 0 && !utf8.RuneStart(output[end]) {
		end--
	}
	return fmt.Sprintf("%s\n[cut off: the result has %d bytes, of which these are the first %d]", output[:end], len(output), end)
}
