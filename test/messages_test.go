package test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/messages.md anew")

// posted are the files whose texts people read on GitHub, by what they write there.
var posted = []struct {
	where string
	files []string
}{
	{
		"Comments on issues and pull requests",
		[]string{"publish/comment.go", "publish/answer.go", "publish/family.go", "publish/held.go", "publish/thread.go"},
	},
	{"Check run", []string{"publish/check.go"}},
	{"Pull request and commits", []string{"publish/pull.go", "publish/message.go", "publish/policy.go", "publish/protected.go"}},
	{"Description of the pull request", []string{"publish/island/*.go"}},
	{"How a run ends", []string{"run/end.go", "run/proof.go"}},
	{"Commands and their errors", []string{"review/command.go"}},
	{"Answers to commands, and reasons", []string{
		"authorization/*.go", "delivery/*.go", "feedback/*.go", "redelivery/*.go", "reconcile/*.go", "job/*.go",
		"pullrequest/*.go", "host/mirror.go",
	}},
	{"Reviews", []string{"review/decide.go", "review/suggestion.go"}},
	{"Questions about an issue", []string{"plan/judge.go"}},
	{
		"Reasons, notes and findings of a run; some only for the next agent call",
		[]string{"loop/*.go", "gate/verdict.go", "supervise/diagnostics.go"},
	},
	{"Summary of the Action's step", []string{"ghaction/summary.go"}},
}

// unposted are calls whose texts stay inside the program: errors that are wrapped, logs,
// patterns, and words of the store.
var unposted = []string{
	"Errorf", "New", "Msg", "Str", "lazy", "WithPurpose", "Tolerate", "tolerateDenied", "settle", "SettleInput",
	"Contains", "HasPrefix", "TrimPrefix", "Cut", "CutPrefix", "Index",
}

// TestMessages compares the table of docs/messages.md with the texts in the code, both ways.
func TestMessages(t *testing.T) {
	t.Parallel()
	const doc = "../docs/messages.md"
	have, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	intro, table, ok := strings.Cut(string(have), "\n## ")
	if !ok {
		t.Fatalf("%s has no table", doc)
	}
	var b strings.Builder
	for _, p := range posted {
		fmt.Fprintf(&b, "\n## %s\n\n| Where | Text |\n| --- | --- |\n", p.where)
		rows := textsOf(t, p.files)
		if len(rows) == 0 {
			t.Errorf("nothing is posted by %v", p.files)
		}
		b.WriteString(strings.Join(rows, ""))
	}
	if *update {
		if err := os.WriteFile(doc, []byte(intro+b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(b.String(), "\n## "+table); diff != "" {
		t.Errorf("%s (-code +table; go test ./test -run TestMessages -update writes it):\n%s", doc, diff)
	}
}

// textsOf are the rows for the texts in some files.
func textsOf(t *testing.T, patterns []string) []string {
	t.Helper()
	var rows []string
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join("../internal", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range file.Decls {
				if _, ok := decl.(*ast.FuncDecl); !ok && !constantsPosted(path) {
					continue
				}
				for _, text := range textsIn(decl) {
					rows = append(rows, fmt.Sprintf("| %s | %s |\n", place(path, decl), cell(text)))
				}
			}
		}
	}
	return slices.Compact(rows)
}

// constantsPosted: elsewhere constants are the words of the store, or vocabularies.
func constantsPosted(path string) bool {
	return strings.Contains(path, "/publish/") || strings.Contains(path, "/island/")
}

// place names the file, and the function in it.
func place(path string, decl ast.Decl) string {
	name := filepath.Base(path)
	if f, ok := decl.(*ast.FuncDecl); ok {
		name += " " + f.Name.Name
	}
	return "`" + name + "`"
}

// textsIn are the texts of at least two words in a declaration.
func textsIn(decl ast.Decl) []string {
	var found []string
	var look func(n ast.Node) bool
	look = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			return n.Tag == nil
		case *ast.CallExpr:
			return !slices.Contains(unposted, called(n))
		case *ast.BinaryExpr:
			text, inner := joined(n)
			found = appendText(found, text)
			for _, in := range inner {
				ast.Inspect(in, look)
			}
			return false
		case *ast.BasicLit:
			text, _ := joined(n)
			found = appendText(found, text)
		}
		return true
	}
	ast.Inspect(decl, look)
	return found
}

func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	}
	return ""
}

// joined is an expression as a text with "…" for what only the program knows, and the
// parts that are no text themselves.
func joined(e ast.Expr) (text string, inner []ast.Expr) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			if text, err := strconv.Unquote(e.Value); err == nil {
				return text, nil
			}
		}
		return "", nil
	case *ast.BinaryExpr:
		left, in := joined(e.X)
		right, more := joined(e.Y)
		if e.Op != token.ADD { // a comparison posts neither side
			return "", append(in, more...)
		}
		return left + right, append(in, more...)
	}
	return "…", []ast.Expr{e}
}

var twoWords = regexp.MustCompile(`[A-Za-z]{2,}[^A-Za-z]* [^A-Za-z]*[A-Za-z]{2,}`)

// pattern is what only a regular expression or SQL holds.
var pattern = regexp.MustCompile(`\(\?|\\[bdsw]`)

func appendText(found []string, text string) []string {
	if text = strings.TrimSpace(text); !twoWords.MatchString(text) || pattern.MatchString(text) {
		return found
	}
	return append(found, text)
}

// cell is a text as a table can hold it, with nothing in it that acts.
func cell(text string) string {
	return strings.NewReplacer("\n", "<br>", "|", `\|`, "<", "&lt;", "[", `\[`, "](", `]\(`).Replace(text)
}
