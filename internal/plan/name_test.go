package plan

import (
	"errors"
	"strings"
	"testing"
)

func TestFileSlug(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"feature.md":                 "feature",
		"docs/feature.md":            "feature",
		"plan.md":                    "plan",
		"prd.json":                   "prd",
		"specs/a/tasks.md":           "a",
		"specs/User Login/PRD.md":    "user-login",
		"specs/v1.2/@fix_plan.md":    "v1-2",
		"x/IMPLEMENTATION_PLAN.md":   "x",
		"x/TODO.md":                  "x",
		".ralph/fix_plan.md":         "fix-plan",
		"/tasks.md":                  "tasks",
		"specs/a/tasks-for-later.md": "tasks-for-later",
	} {
		if got := FileSlug(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestFromText(t *testing.T) {
	t.Parallel()
	const words = "Add a --verbose flag to the CLI in cmd/tool.md and document it"
	p, err := FromText(" " + words + "\u200b\n")
	if err != nil || p.Title != words || p.Text != words || p.Removed != 1 || len(p.Tasks) != 0 || p.SHA256 == "" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err = FromText(strings.Repeat("many words ", 50)); err != nil || len([]rune(p.Title)) > 81 {
		t.Errorf("title %q, %v", p.Title, err)
	}
	if _, err := FromText(" \u200b "); !errors.Is(err, ErrEmpty) {
		t.Errorf("nothing: %v", err)
	}
	for text, want := range map[string]string{
		words:                              "add-a-verbose-flag-to-the",
		"Fix a/b.":                         "fix-a-b",
		"ok then":                          "ok-then",
		"  Rename   it\nand test it twice": "rename-it-and-test-it-twice",
	} {
		if got := TextSlug(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestFromPromptIsOneTask(t *testing.T) {
	t.Parallel()
	const text = "# Clean up\n\n- [ ] one\n- [ ] two\n\n## Acceptance\n\n- it works\n"
	p, err := FromPrompt(text, "DONE")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Tasks) != 1 || p.Tasks[0].Title != "Clean up" || len(p.Accept) != 0 || p.Text != strings.TrimSpace(text) {
		t.Errorf("plan %+v", p)
	}
	other, err := FromPrompt(text, "FINISHED")
	if err != nil || other.SHA256 == p.SHA256 {
		t.Errorf("with another promise it is the same plan (%v)", err)
	}
}
