package publish

import (
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
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
		{".github/dependabot.yml", 0, file, "configures services that act on the repository"},
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
		{".github/workflows/ci.yml", file, file, "runs with the repository's permissions"},
		{".github/workflows/ci.yml", file, 0, "runs with the repository's permissions"},
		{".github/workflows", 0, file, "runs with the repository's permissions"},
		{".GitHub/Workflows/ci.yml", 0, file, "runs with the repository's permissions"},
		{".github/actions/a/action.yml", 0, file, "runs with the repository's permissions"},
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
		{".vscode/settings.json", 0, file, "runs on contributors' machines"},
		{"docs/claude.md.txt", 0, file, ""},
		{"internal/agents/agents.go", 0, file, ""},
		{".husky/pre-commit", 0, exe, "runs on contributors' machines"},
	}
	for _, c := range cases {
		change := loop.Change{Path: c.path, OldMode: c.old, NewMode: c.new}
		got := Screen(loop.State{}, []loop.Change{change})
		var want []loop.Refusal
		if c.want != "" {
			want = []loop.Refusal{{Path: c.path, Reason: c.want}}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q %o to %o (-want +got):\n%s", c.path, c.old, c.new, diff)
		}
	}
}

// Everything that a machine follows of its own accord is protected by default, as any
// file system reads its name; the rest of a repository is not.
func TestWhatSteersMachinesIsProtected(t *testing.T) {
	t.Parallel()
	for _, p := range []string{
		".circleci/config.yml", ".gitlab-ci.yml", ".gitlab/ci/build.yml", "Jenkinsfile", "ci/Jenkinsfile.release",
		"azure-pipelines.yml", "azure-pipelines-pr.yaml", ".buildkite/pipeline.yml", ".drone.yml", ".drone.star", ".travis.yml",
		"bitbucket-pipelines.yml", ".woodpecker.yml", ".woodpecker/a.yaml", "appveyor.yml", ".cirrus.yml", ".semaphore/a.yml",
		".teamcity/settings.kts", "codefresh.yml", ".tekton/push.yaml", "cloudbuild.yaml", "buildspec.yml",
		".gitea/workflows/a.yml", ".forgejo/workflows/a.yml", ".builds/a.yml", ".zuul.yaml", ".readthedocs.yaml",
		"netlify.toml", "web/vercel.json", "render.yaml", "wrangler.toml", "fly.toml",
		".vscode/tasks.json", ".vscode/launch.json", "sub/.vscode/settings.json", "x.code-workspace",
		".idea/runConfigurations/a.xml", ".run/a.run.xml", ".zed/tasks.json", ".exrc", ".nvim.lua", ".dir-locals.el",
		".devcontainer/devcontainer.json", ".devcontainer.json", "sub/.devcontainer/a/devcontainer.json", ".gitpod.yml",
		".gitmodules", ".lfsconfig", ".husky/pre-commit", ".githooks/pre-push", "lefthook.yml", ".lefthook-local.yml",
		".pre-commit-config.yaml", ".overcommit.yml", ".lintstagedrc.json", ".envrc",
		".claude/settings.json", ".mcp.json", ".cursor/rules/a.mdc", ".codex/config.toml", ".gemini/settings.json",
		"opencode.json", ".kiro/steering/a.md", ".junie/guidelines.md",
		"atlantis.yaml", "digger.yml", ".spacelift/config.yml", ".mergify.yml", ".kodiak.toml", ".bulldozer.yml", ".policy.yml",
		".github/settings.yml", ".github/dependabot.yml", "renovate.json", ".renovaterc", ".coderabbit.yaml", ".pr_agent.toml",
		"OWNERS", "pkg/OWNERS", "mise.toml", ".mise.local.toml", ".config/mise/config.toml", ".pnpmfile.cjs", ".yarnrc.yml",
		".yarn/releases/yarn-4.cjs", "web/.yarn/plugins/x.cjs", "firebase.json", "serverless.yml", ".do/app.yaml",
		".github/FUNDING.yml", ".github/scripts/a.sh", ".github/issue_template_x/a.md",
		// Spelled so that only some file system sees what it means.
		".hu\u017fky/pre-commit", ".HUSKY/pre-commit", ".husky./pre-commit", ".husky /pre-commit", ".hu\u200csky/pre-commit",
		"JENKINSFILE", ".gitmodules.", ".GitModules", ".gitlab-ci.yml::$DATA", ".VSCODE/tasks.json", ".v\u017fcode/tasks.json",
		"opencode.json ", "AGENT\u017f.md",
	} {
		change := loop.Change{Path: p, NewMode: gitrepo.ModeFile}
		if got := Screen(loop.State{}, []loop.Change{change}); len(got) != 1 {
			t.Errorf("%q may land: %+v", p, got)
		}
	}
	for _, p := range []string{
		"main.go", "Makefile", "package.json", "go.mod", "docs/ci.md", "vscode/tasks.json", "internal/jenkins/jenkinsfile_test.go",
		"pkg/circleci/config.yml", "githooks/hooks.go", "husky/a.ts", "src/vercel.go", ".gitignore", ".gitattributes",
		".editorconfig", "azure.yml", "drone.yml", "gitmodules.go", "devcontainer/parse.go", "app.json", "app.yaml",
		".github/ISSUE_TEMPLATE/a.md", ".github/pull_request_template.md", ".github/PULL_REQUEST_TEMPLATE/a.md", "docs/jenkinsfiles.md",
		".yarn/cache/a.zip", "src/owners.go", "owners/a.go",
	} {
		if got := Screen(loop.State{}, []loop.Change{{Path: p, NewMode: gitrepo.ModeFile}}); len(got) > 0 {
			t.Errorf("%q may not land: %+v", p, got)
		}
	}
}

// The patterns of the list can be read, and are in the form of the paths they are
// compared with.
func TestSteeredIsSound(t *testing.T) {
	t.Parallel()
	for _, group := range steered() {
		for _, name := range group.patterns {
			name = strings.TrimLeft(name, "!/")
			if _, err := path.Match(name, "x"); err != nil || gitrepo.Fold(name) != name {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
}

// TestProtection: what a repository names is protected besides what always is.
func TestProtection(t *testing.T) {
	t.Parallel()
	const rights, agents, own = "runs with the repository's permissions", "configures agents",
		"protected by this repository's settings"
	more := []string{"deploy/", "*.lock", "infra/*.tf", "Makefile", "[broken"}
	for path, reason := range map[string]string{
		".github/workflows/ci.yml":     rights,
		".GitHub/workflows/x/y":        rights,
		".github/actions/x/action.yml": rights,
		"AGENTS.md":                    agents,
		"deploy/prod.yml":              own,
		"Deploy/a/b":                   own,
		"deployment.yml":               own, // a pattern that cannot be read means every name
		"infra/a/main.tf":              own,
		"sub/makefile":                 own,
		"infra/main.tf":                own,
		"web/yarn.lock":                own,
	} {
		got := screen([]loop.Change{{Path: path, NewMode: gitrepo.ModeFile}}, more, nil)
		if diff := cmp.Diff([]loop.Refusal{{Path: path, Reason: reason}}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	for path, c := range map[string]struct {
		mode   uint32
		reason string
	}{
		"deploy/link":                     {gitrepo.ModeSymlink, "symbolic link"},
		"a/../../etc":                     {gitrepo.ModeFile, "not a path within the repository"},
		".github/workflows/../x/codeword": {gitrepo.ModeFile, "not a path within the repository"},
	} {
		got := screen([]loop.Change{{Path: path, NewMode: c.mode}}, more, nil)
		if diff := cmp.Diff([]loop.Refusal{{Path: path, Reason: c.reason}}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	for path, pattern := range map[string]string{
		"deployment.yml": "deploy/", "a/b.tf": "*.tf/", "infra/a/main.tf": "infra/*.tf", "main.lock.txt": "*.lock",
	} {
		if got := screen([]loop.Change{{Path: path, NewMode: gitrepo.ModeFile}},
			[]string{pattern}, nil); len(got) > 0 {
			t.Errorf("%q means %q: %+v", pattern, path, got)
		}
	}
}

// What the host changed itself may pass where an agent may not; what cannot be
// published at all may not.
func TestScreenLetsTheHostsOwnEditsThrough(t *testing.T) {
	t.Parallel()
	changes := []loop.Change{
		{Path: "AGENTS.md", OldMode: gitrepo.ModeFile, NewMode: gitrepo.ModeFile},
		{Path: "sub/AGENTS.md", NewMode: gitrepo.ModeFile},
		{Path: "CLAUDE.md", NewMode: gitrepo.ModeSymlink},
	}
	got := screen(changes, nil, []string{"AGENTS.md", "CLAUDE.md"})
	want := []loop.Refusal{
		{Path: "sub/AGENTS.md", Reason: "configures agents"},
		{Path: "CLAUDE.md", Reason: "symbolic link"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
