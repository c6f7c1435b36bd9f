package publish

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gitrepo"
)

func TestScreen(t *testing.T) {
	t.Parallel()
	const file, exe, link, sub = gitrepo.ModeFile, gitrepo.ModeExecutable, gitrepo.ModeSymlink, gitrepo.ModeSubmodule
	cases := []struct {
		path     string
		old, new uint32
		want     string // "" is let through
	}{
		{"main.go", 0, file, ""},
		{"main.go", file, file, ""},
		{"main.go", file, 0, ""},
		{"run.sh", 0, exe, ""},
		{"run.sh", file, exe, ""},
		{"run.sh", exe, file, ""},
		{"a b/ü.txt", 0, file, ""},
		{".gitignore", 0, file, ""},
		{"docs/workflows/x.yml", 0, file, ""},
		{".github/dependabot.yml", 0, file, ""},
		{"pkg/codeowners", 0, file, ""},
		{".ralph/7/progress.md", file, file, ""},
		{"old-link", link, 0, ""},

		{"link", 0, link, "symbolic link"},
		{"main.go", file, link, "symbolic link"},
		{"link", link, file, "replaces a symbolic link"},
		{"vendor/x", 0, sub, "submodule"},
		{"vendor/x", sub, sub, "submodule"},
		{"vendor/x", sub, 0, "submodule"},
		{"odd", 0, 0o100600, "file mode 100600"},
		{"../out", 0, file, "not a path within the repository"},
		{"a/../../out", 0, file, "not a path within the repository"},
		{"/etc/passwd", 0, file, "not a path within the repository"},
		{"a/.GIT/config", 0, file, "not a path within the repository"},
		{"", 0, file, "not a path within the repository"},
		{"a\nb", 0, file, "name contains a control character"},
		{"a\x00b", 0, file, "name contains a control character"},
		{"a\xff", 0, file, "name is not UTF-8"},
		{".github/workflows/ci.yml", file, file, "runs with the repository's rights"},
		{".github/workflows/ci.yml", file, 0, "runs with the repository's rights"},
		{".github/workflows", 0, file, "runs with the repository's rights"},
		{".GitHub/Workflows/ci.yml", 0, file, "runs with the repository's rights"},
		{".github/actions/a/action.yml", 0, file, "runs with the repository's rights"},
		{".github/ralph.yml", 0, file, "configures this bot"},
		{"CODEOWNERS", 0, file, "decides who must review"},
		{".github/CODEOWNERS", 0, file, "decides who must review"},
		{"docs/CODEOWNERS", 0, file, "decides who must review"},
		{"CLAUDE.md", 0, file, "configures agents"},
		{"sub/claude.md", 0, file, "configures agents"},
		{"AGENTS.md", 0, file, "configures agents"},
		{".mcp.json", 0, file, "configures agents"},
		{".claude/settings.json", 0, file, "configures agents"},
		{"web/.claude/settings.json", 0, file, "configures agents"},
		{"sub/GEMINI.md", 0, file, "configures agents"},
		{".codex/config.toml", 0, file, "configures agents"},
		{".gemini/settings.json", 0, file, "configures agents"},
		{".opencode/plugin/x.js", 0, file, "configures agents"},
		{"opencode.jsonc", 0, file, "configures agents"},
		{".cursor/rules/x.mdc", 0, file, "configures agents"},
		{".github/copilot-instructions.md", 0, file, "configures agents"},
		{".github/Instructions/go.instructions.md", 0, file, "configures agents"},
		{".vscode/mcp.json", 0, file, "configures agents"},
		{".vscode/settings.json", 0, file, ""},
		{"docs/claude.md.txt", 0, file, ""},
		{"internal/agents/agents.go", 0, file, ""},
		{".husky/pre-commit", 0, exe, "runs on the machines of contributors"},
	}
	for _, c := range cases {
		change := gitrepo.Change{Path: c.path, OldMode: c.old, NewMode: c.new}
		ok, held := Screen([]gitrepo.Change{change})
		var wantOK []gitrepo.Change
		var wantHeld []HeldBack
		if c.want == "" {
			wantOK = append(wantOK, change)
		} else {
			wantHeld = append(wantHeld, HeldBack{Path: c.path, Reason: c.want})
		}
		if diff := cmp.Diff(wantOK, ok) + cmp.Diff(wantHeld, held); diff != "" {
			t.Errorf("%q %o to %o (-want +got):\n%s", c.path, c.old, c.new, diff)
		}
	}
}

// What the host changed itself may pass where an agent may not; what cannot be
// published at all may not.
func TestScreenLetsTheHostsOwnEditsThrough(t *testing.T) {
	t.Parallel()
	changes := []gitrepo.Change{
		{Path: "AGENTS.md", OldMode: gitrepo.ModeFile, NewMode: gitrepo.ModeFile},
		{Path: "sub/AGENTS.md", NewMode: gitrepo.ModeFile},
		{Path: "CLAUDE.md", NewMode: gitrepo.ModeSymlink},
	}
	ok, held := screen(changes, []string{"AGENTS.md", "CLAUDE.md"})
	want := []HeldBack{{Path: "sub/AGENTS.md", Reason: "configures agents"}, {Path: "CLAUDE.md", Reason: "symbolic link"}}
	if diff := cmp.Diff(changes[:1], ok) + cmp.Diff(want, held); diff != "" {
		t.Error(diff)
	}
}

func TestPolicyErrorQuotes(t *testing.T) {
	t.Parallel()
	e := &PolicyError{}
	for range 7 {
		e.Held = append(e.Held, HeldBack{Path: "a\n::error::x", Reason: "symbolic link"})
	}
	got := e.Error()
	if strings.Contains(got, "\n") || !strings.HasPrefix(got, `held back: "a\n::error::x": symbolic link; `) || !strings.HasSuffix(got, "; and 2 more") {
		t.Errorf("got %q", got)
	}
}
