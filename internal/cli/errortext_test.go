package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"testing"
)

// errorTexts returns the texts of the errors that a file makes, joined where they
// are sums.
func errorTexts(t *testing.T, name string) (texts []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		made := ""
		switch f := call.Fun.(type) {
		case *ast.Ident:
			made = f.Name
		case *ast.SelectorExpr:
			if x, ok := f.X.(*ast.Ident); ok {
				made = x.Name + "." + f.Sel.Name
			}
		}
		if made == "usageError" || made == "fmt.Errorf" || made == "errors.New" {
			if text := literal(call.Args[0]); text != "" {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}

func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	}
	return ""
}

var (
	named  = regexp.MustCompile(`--[a-z]|<[a-z]+>|AGENTD_|/[a-z]+|%[sqdwv]|EDITOR|\bname\b|the argument`)
	vague  = regexp.MustCompile(`(?i)^(invalid|bad|error|failed|wrong|unexpected)\b`)
	intern = map[string]bool{ // never shown
		"answered": true, "the person left": true,
	}
)

// namesSomething reports whether a text says which thing is wrong.
func namesSomething(text string) bool {
	return intern[text] || !vague.MatchString(text) && (named.MatchString(text) || len(text) > 40)
}
