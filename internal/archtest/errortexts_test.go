package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	vagueText = regexp.MustCompile(`(?i)^(?:invalid|bad|error|failed|wrong|unexpected|illegal|oops)\b[^:]*$`)
	beginning = regexp.MustCompile("^(?:[A-Z0-9%\"'`]|[a-z]+_[a-z_]+ |agentd )")
	ending    = regexp.MustCompile(`(?:[.?!]|%[sqdvw])$`)
)

// Every refusal of the API is a sentence: it begins with a capital letter (or a field
// or a value), ends with a full stop, and says what is wrong instead of that something
// is. Messages of fields follow the field's name and say what would be right.
func TestErrorTextsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	seen := 0
	err := filepath.WalkDir(filepath.Join("..", "..", "internal"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, text := range refusalTexts(n) {
				seen++
				if !beginning.MatchString(text) || !ending.MatchString(text) || vagueText.MatchString(text) {
					t.Errorf("%s: the refusal %q is no sentence that says what is wrong", path, text)
				}
			}
			for _, text := range fieldTexts(n) {
				seen++
				if vagueText.MatchString(text) || len(text) < 8 {
					t.Errorf("%s: the message %q of a field does not say what would be right", path, text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 300 {
		t.Errorf("only %d texts were found: this test looks in the wrong places", seen)
	}
}

// refusalTexts returns the detail of a call of fault.New, if it is a literal. Those of
// our own bugs are replaced by a fixed sentence.
func refusalTexts(n ast.Node) []string {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) < 3 {
		return nil
	}
	if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "New" || !isName(f.X, "fault") || isInternal(call.Args[0]) {
		return nil
	}
	return nonEmpty(literalText(call.Args[2]))
}

// fieldTexts returns the message of a fault.Field, if it is a literal.
func fieldTexts(n ast.Node) []string {
	lit, ok := n.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	if s, ok := lit.Type.(*ast.SelectorExpr); !ok || s.Sel.Name != "Field" || !isName(s.X, "fault") {
		return nil
	}
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok && isName(kv.Key, "Message") {
			return nonEmpty(literalText(kv.Value))
		}
	}
	return nil
}

func isInternal(kind ast.Expr) bool {
	s, ok := kind.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Internal"
}

func isName(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// literalText returns a string literal, or a sum of them; "" for anything else in it.
func literalText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value) // other literals are not texts
		return text
	case *ast.BinaryExpr:
		left, right := literalText(e.X), literalText(e.Y)
		if left == "" || right == "" {
			return ""
		}
		return left + right
	}
	return ""
}
