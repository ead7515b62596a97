package guardrail

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/pattern"
	"agentd/internal/base/pii"
	"agentd/internal/kernel/policy"
)

// match is what a finder found in a text; the zero value if nothing.
type match struct {
	text string   // with the findings replaced
	what []string // the kinds of findings
}

// search is one check of a text, of which each string may be searched alone.
type search struct {
	ctx    context.Context
	budget *pattern.Budget
}

// finder finds places in a text. It is stateless.
type finder interface {
	find(s *search, text string) (match, error)
	// because returns the reason of a violation, given the kinds of findings.
	because(what []string) string
}

// spanChecker checks for places in the text, which can be redacted. In JSON it checks
// the decoded strings, so that an escape hides nothing and a redaction leaves valid
// JSON.
type spanChecker struct {
	find finder
	// whole also checks the raw JSON, if its strings have no findings.
	whole bool
}

func (c *spanChecker) check(ctx context.Context, q checkInput) (checkResult, error) {
	s := &search{ctx, pattern.NewBudget(pattern.MaxSteps)}
	f, ok, err := c.structured(s, q.text)
	if err != nil {
		return checkResult{}, err
	}
	if ok && (len(f.what) > 0 || !c.whole) {
		return c.finding(f, true), nil
	}
	if f, err = c.find.find(s, q.text); err != nil {
		return checkResult{}, err
	}
	return c.finding(f, !ok || q.part != partArguments), nil
}

func (c *spanChecker) finding(f match, clean bool) checkResult {
	if len(f.what) == 0 {
		return checkResult{}
	}
	return checkResult{violated: true, reason: c.find.because(f.what), text: f.text, redacted: clean}
}

// structured checks the strings and numbers of JSON. ok is false if the text is not a
// JSON object, array or string.
func (c *spanChecker) structured(s *search, text string) (f match, ok bool, err error) {
	if t := strings.TrimLeft(text, " \t\r\n"); t == "" || strings.IndexByte(`{["`, t[0]) < 0 {
		return match{}, false, nil
	}
	var out strings.Builder
	from := 0
	dec := jsontext.NewDecoder(bytes.NewBufferString(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		kind := dec.PeekKind()
		if kind != '"' && kind != '0' {
			if _, err := dec.ReadToken(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return match{}, false, nil
			}
			continue
		}
		raw, err := dec.ReadValue()
		if err != nil {
			return match{}, false, nil
		}
		at, err := c.scalar(s, raw)
		if err != nil {
			return match{}, true, err
		}
		if len(at.what) == 0 {
			continue
		}
		f.what = union(f.what, at.what)
		quoted, err := jsontext.AppendQuote(nil, at.text)
		if err != nil {
			return match{}, true, errors.New("a text that is not UTF-8 cannot be redacted")
		}
		end := int(dec.InputOffset())
		out.WriteString(text[from : end-len(raw)])
		out.Write(quoted)
		from = end
	}
	if len(f.what) > 0 {
		out.WriteString(text[from:])
		f.text = out.String()
	}
	return f, true, nil
}

func (c *spanChecker) scalar(s *search, raw jsontext.Value) (match, error) {
	if raw.Kind() != '"' {
		return c.find.find(s, string(raw))
	}
	unquoted, err := jsontext.AppendUnquote(nil, raw)
	if err != nil && len(unquoted) == 0 {
		return c.find.find(s, string(raw))
	}
	return c.find.find(s, string(unquoted))
}

func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}

type piiFinder struct {
	entities    []pii.Entity
	replacement *string // nil: the entity's label
}

func (p piiFinder) find(_ *search, text string) (f match, err error) {
	spans := pii.Find(text, p.entities...)
	if len(spans) == 0 {
		return match{}, nil
	}
	for _, s := range spans {
		if !slices.Contains(f.what, string(s.Entity)) {
			f.what = append(f.what, string(s.Entity))
		}
	}
	if p.replacement == nil {
		f.text = pii.Redact(text, spans)
		return f, nil
	}
	var b strings.Builder
	from := 0
	for _, s := range spans {
		b.WriteString(text[from:s.Start])
		b.WriteString(*p.replacement)
		from = s.End
	}
	b.WriteString(text[from:])
	f.text = b.String()
	return f, nil
}

func (piiFinder) because(what []string) string {
	return "it contains " + strings.Join(what, ", ")
}

// wholeTextResult is the violation of a kind that judges a text as a whole: a
// redaction replaces all of it, except for arguments, which must remain readable.
func wholeTextResult(q checkInput, because, replacement string) checkResult {
	f := checkResult{violated: true, reason: because}
	if q.action == policy.Redact && q.part != partArguments {
		f.text, f.redacted = replacement, true
	}
	return f
}
