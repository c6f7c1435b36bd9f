package progress

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/org/ralph-action/internal/run"
)

// What is said of a broken document, and where.
func TestCheck(t *testing.T) {
	t.Parallel()
	const e, w = SeverityError, SeverityWarning
	tests := []struct {
		name, src string
		want      []string
	}{
		{"nothing", "", []string{"1:1 error no_task"}},
		{"prose", "# Title\n\ntext\n", []string{"1:1 error no_task"}},
		{"no task yet", "# T\n\n## Tasks\n\ntext\n", []string{"3:1 warning no_task"}},
		{"no section", "# T\n\n- [ ] a\n- [ ] b\n", []string{"3:1 warning no_tasks_section"}},
		{"too large", strings.Repeat("x\n", MaxSize/2) + "y", []string{fmt.Sprintf("%d:1 error unreadable", MaxSize/2+1)}},
		{"Latin-1", "a\néé caf\xe9", []string{"2:7 error unreadable"}},
		{"NUL", bom + "a\x00", []string{"1:2 error unreadable"}},
		{"too deep", "a\n" + strings.Repeat(">", 40), []string{"2:1 error unreadable"}},
		{"empty box", "## Tasks\n- [ ] a\n- [ ]\n- [x] \n", []string{"3:3 warning empty_box", "4:3 warning empty_box"}},
		{"malformed boxes", "## Tasks\n- [ ] a\n- [] b\n- [X ] c\n- [-] d\n- []e\n- [x]f\n- [  ] g\n- [~] h\n- [✓] i\n", []string{
			"3:3 error malformed_box", "4:3 error malformed_box", "5:3 error malformed_box", "6:3 error malformed_box",
			"7:3 error malformed_box", "8:3 error malformed_box", "9:3 error malformed_box", "10:3 error malformed_box"}},
		{
			"no blank behind the bullet", "## Tasks\n\n-[ ] a\n*[x] b\n\n- [ ] c\n",
			[]string{"3:1 error malformed_box", "4:1 error malformed_box"},
		},
		{"no bullet", "## Tasks\n[ ] a\n\n- [ ] b\n", []string{"2:1 error malformed_box"}},
		{"below a plain item", "## Tasks\n- é\n  - [ ] a\n  - [] b\n", []string{"4:5 error malformed_box"}},
		{
			"links and talk of boxes",
			"## Tasks\n- [ ] a\n- [x](u) b\n- [x][y] c\n- `[ ]` is open\n- [`[x]`](u)\n- [a] d\n- [](u)\n\n`-[ ]` is none, nor is x -[ ] y\n\n[x]: u\n",
			nil,
		},
		{"duplicate ids", "## Tasks\n- [ ] T1 a\n- [ ] **T01** b\n- [ ] T2 c\n", []string{"3:9 error duplicate_id"}},
		{
			"open fence", "## Tasks\n- [ ] a\n\n  ~~~go\n  x\n\n```\n## Notes\n- [ ] b\n",
			[]string{"4:3 error unclosed", "7:1 error unclosed"},
		},
		{"empty open fence", "## Tasks\n- [ ] a\n\n````", []string{"4:1 error unclosed"}},
		{"fence closed by a shorter one", "## Tasks\n- [ ] a\n\n````\n```\n", []string{"4:1 error unclosed"}},
		{"closed fences", "## Tasks\n- [ ] a\n  ```\n  ```\n\n> ~~~\n> x\n> ~~~~\n\n```\nx\n```", nil},
		{"open comment", "## Tasks\n- [ ] a\n\n<!-- x\n\n## Notes\n", []string{"4:1 error unclosed"}},
		{"other open HTML", "## Tasks\n- [ ] a\n\n<script>\n\nx\n", []string{"4:1 error unclosed"}},
		{
			"closed HTML",
			"<!-- x -->\n## Tasks\n- [ ] a\n\n<!--\nx\n-->\n\n<div>\n\n<PRE>\n\n</Pre>\n\n<?x\n?>\n\n<!X\n>\n\n<![CDATA[\n]]>\n\n<b>\n",
			nil,
		},
		{
			"sections twice", "## Tasks\n- [ ] a\n## Notes\n## Learnings\n## notes:\n## Mine\n## Mine\n## Tasks\n- [ ] b\n",
			[]string{"5:1 error duplicate_section"},
		},
		{"status", "## Status\nNearly done\n\n## Tasks\n- [ ] a\n", []string{"2:1 warning unknown_status"}},
		{"known status", "## Status\n**In progress**\n\nmore\n\n## Tasks\n- [ ] a\n", nil},
		{"done with open tasks", "## Status\n\n`RALPH_DONE`\n\n## Tasks\n- [ ] a\n- [x] b\n", []string{"3:1 error marker"}},
		{"done", "## Status\nRALPH_DONE\n\n## Tasks\n- [x] a\n- [ ] b (skipped: c)\n", nil},
		{
			"marker elsewhere", "## Tasks\n- [x] a\n\nRALPH_DONE\n\nNever write RALPH_DONE.\n\n```\nRALPH_DONE\n```\n",
			[]string{"4:1 warning marker"},
		},
		{
			"stray boxes",
			"- [ ] z\n## Tasks\n- [ ] a\n  - [ ] b\n### G\n- [ ] c\n## Notes\n- d\n  - [x] e\n## Completed This Iteration\n- [x] f\n",
			[]string{"1:3 warning stray_box", "9:5 warning stray_box"},
		},
		{"dependencies", "## Tasks\n- [ ] T1 a\n  - Depends on: T2, T9\n- [ ] T2 b\n  - After: T3\n- [ ] T3 c\n  - After: T2\n- [ ] T4 d\n  - After: T4\n- [ ] T5 e\n- [x] T6 f\n  - After: T5\n", []string{
			"3:17 error dependency_circle", "3:21 error unknown_dependency", "5:12 error dependency_circle",
			"7:12 error dependency_circle", "9:12 error dependency_circle"}},
		{
			"code instead of a list", "## Tasks\n\n    - [ ] a\n    - [ ] b\n",
			[]string{"1:1 warning no_task", "3:5 warning stray_box"},
		},
		{
			"a quotation instead of a list", "## Tasks\n> text\n\n> - [ ] a\n\n>\n",
			[]string{"1:1 warning no_task", "4:5 warning stray_box"},
		},
		{"code and quotations beside tasks", "## Tasks\n- [ ] a\n\n> - [ ] b\n\n#### G\n\n    - [ ] c\n", nil},
		{
			"labels in a title", "## Tasks\n- [ ] a\nAcceptance Criteria:\n- b\n- [ ] c\n  and more\n  Depends on: T1\n",
			[]string{"3:1 warning label_in_title", "7:15 error unknown_dependency"},
		},
		{"too many", "## Tasks\n" + strings.Repeat("- [] a\n", 500), nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, src := range []string{tc.src, strings.ReplaceAll(tc.src, "\n", "\r\n")} {
				if tc.name == "too large" {
					src = tc.src
				}
				var got []string
				for _, p := range Check([]byte(src)) {
					got = append(got, fmt.Sprintf("%d:%d %s %s", p.Line, p.Column, p.Severity, p.Kind))
					if p.Message == "" || p.Hint == "" || strings.ContainsAny(p.Message+p.Hint, "\r\n") || p.Severity != e &&
						p.Severity != w {
						t.Errorf("%+v", p)
					}
				}
				if tc.name == "too many" {
					if len(got) != maxProblems {
						t.Errorf("%d problems", len(got))
					}
					return
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%q (-want +got):\n%s", src, diff)
				}
			}
		})
	}
}

// A sound document has no problems: ours, and those of the systems people come
// from.
func TestCheckOfSoundDocuments(t *testing.T) {
	t.Parallel()
	fresh := New("x", Binding{Key: "plan:x"})
	if _, err := fresh.AddTask(run.Task{Title: "x"}); err != nil {
		t.Fatal(err)
	}
	docs := map[string]string{
		"sample": sample(false), "windows": bom + sample(true), "plan": plan, "fresh": string(fresh.Bytes()),
	}
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, f := range files {
		docs[f] = golden(t, f).in
	}
	for name, src := range docs {
		if got := Check([]byte(src)); len(got) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Of any document that is mostly Markdown, places are in order and in it.
func TestCheckOfAnyDocument(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		checkHolds(t, []byte(evil().Draw(t, "before")+document().Draw(t, "document")+evil().Draw(t, "after")))
	})
}

func checkHolds(t interface {
	Fatalf(format string, args ...any)
}, src []byte) {
	last := 0
	lines := strings.Count(string(src), "\n") + 1
	for _, p := range Check(src) {
		if p.Line < last || p.Line > lines || p.Column < 1 || p.Message == "" || p.Hint == "" {
			t.Fatalf("%+v of %d lines", p, lines)
		}
		last = p.Line
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(sample(true)))
	f.Add([]byte("## Tasks\n- [] a\n-[ ] b\n```\n<!--"))
	f.Fuzz(func(t *testing.T, src []byte) { checkHolds(t, src) })
}
