package publish

import (
	"path"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/gitrepo"
)

// steers says what a file decides.
type steers int

const (
	runsInWorkflows steers = iota
	configuresBot
	configuresServices
	decidesReview
	configuresAgents
	runsInCI
	runsOnMachines
	steersGit
)

// reason says why an agent must not change such a file.
func (s steers) reason() string {
	switch s {
	case configuresBot:
		return "configures this bot"
	case configuresServices:
		return "configures services that act on the repository"
	case decidesReview:
		return "decides who must review"
	case configuresAgents:
		return "configures agents"
	case runsInCI:
		return "runs in CI or on deployment"
	case runsOnMachines:
		return "runs on contributors' machines"
	case steersGit:
		return "tells git where code comes from"
	default:
		return "runs with the repository's permissions"
	}
}

// steering is a group of files that machines follow. The names are as
// [gitrepo.Fold] writes them.
type steering struct {
	kind steers
	// files are names anywhere, with path.Match's wildcards; dirs hold what is
	// protected, wherever they lie; paths are whole paths, and all below them.
	files, dirs, paths []string
	// but are those below paths that steer nothing.
	but []string
}

// steered is everything that is protected by default. It goes by names that mean
// something to a program of their own accord; what only a build reads is not in it.
var steered = []steering{
	{
		kind:  runsInWorkflows,
		paths: []string{".github/workflows", ".github/actions"},
	},
	{
		kind:  configuresBot,
		paths: []string{".github/ralph.yml", ".github/ralph.yaml"},
	},
	{
		kind: configuresServices,
		files: []string{
			// What merges, approves, updates or reviews by itself.
			".mergify.yml", ".kodiak.toml", ".bulldozer.yml", ".policy.yml", "renovate.json", "renovate.json5", ".renovaterc",
			".renovaterc.json", ".renovaterc.json5", ".coderabbit.yaml", ".coderabbit.yml", ".pr_agent.toml",
		},
		dirs: []string{".mergify"},
	},
	{
		kind:  decidesReview,
		files: []string{"owners", "owners_aliases"}, // Prow's, in any directory
		paths: []string{
			"codeowners", ".github/codeowners", "docs/codeowners", // GitHub's places
			".gitlab/codeowners", ".gitea/codeowners", ".forgejo/codeowners",
		},
	},
	{
		kind: configuresAgents,
		// What coding agents read by themselves, as instructions or configuration.
		files: []string{
			"claude.md", "claude.local.md", "agents.md", "agents.override.md", "agent.md", "gemini.md", "copilot.md", "qwen.md",
			"warp.md", ".mcp.json", "opencode.json", "opencode.jsonc", "crush.json", ".crush.json", ".claude.json",
			".cursorrules", ".cursorignore", ".windsurfrules", ".clinerules", ".roorules", ".roorules-*", ".roomodes",
			".kilocoderules", ".kilocodemodes", ".goosehints", ".aider*.yml", ".aider*.json", ".geminiignore", ".rules",
			".augment-guidelines", ".ampcoderc",
		},
		dirs: []string{
			".claude", ".claude-plugin", ".codex", ".gemini", ".opencode", ".cursor", ".copilot", ".amp", ".agents", ".agent",
			".windsurf", ".clinerules", ".roo", ".qwen", ".crush", ".goose", ".continue", ".kiro", ".junie", ".trae", ".augment",
			".kilocode", ".factory", ".openhands", ".devin", ".amazonq", ".aiassistant", ".tabnine", ".zencoder", ".ruler",
		},
		paths: []string{
			".github/copilot-instructions.md", ".github/instructions", ".github/prompts", ".github/chatmodes", ".github/agents",
			".github/skills", ".github/hooks", ".github/copilot", ".github/mcp.json", ".github/lsp.json", ".vscode/mcp.json",
		},
	},
	{
		kind: runsInCI,
		files: []string{
			".gitlab-ci*.yml", ".gitlab-ci*.yaml", "*.gitlab-ci.yml", "*.gitlab-ci.yaml", "circle.yml",
			"jenkinsfile", "jenkinsfile.*", "jenkinsfile-*", "*.jenkinsfile", "*-jenkinsfile",
			"azure-pipelines*.yml", "azure-pipelines*.yaml", ".azure-pipelines*.yml", ".azure-pipelines*.yaml", ".vsts-ci.yml",
			".drone.*", ".travis.yml", ".travis.yaml", "bitbucket-pipelines.yml", "bitbucket-pipelines.yaml",
			".woodpecker*.yml", ".woodpecker*.yaml", "appveyor*.yml", "appveyor*.yaml", ".appveyor*.yml", ".appveyor*.yaml",
			".cirrus.*", ".buildkite.yml", ".buildkite.yaml", "buildkite.yml", "buildkite.yaml", "codefresh*.yml",
			"codefresh*.yaml", "cloudbuild*.yml", "cloudbuild*.yaml", "cloudbuild*.json", "buildspec*.yml", "buildspec*.yaml",
			"appspec.yml", "appspec.yaml", ".build.yml", "wercker.yml", "screwdriver.yaml", "bitrise.yml", "codemagic.yaml",
			".scrutinizer.yml", ".semaphore.yml", ".prow.yaml", ".zuul.yaml", "zuul.yaml", ".packit.yaml", ".packit.yml",
			"packit.yaml", ".readthedocs.yml", ".readthedocs.yaml", "readthedocs.yml", ".taskcluster.yml", ".cds.yml",
			// Hosts that build and deploy what is pushed.
			"netlify.toml", "vercel.json", "vercel.ts", "now.json", "render.yaml", "amplify.yml", "heroku.yml", "railway.json",
			"railway.toml", "fly.toml", "wrangler.toml", "wrangler.json", "wrangler.jsonc", "apphosting*.yaml", "firebase.json",
			"serverless.yml", "serverless.yaml", "serverless.ts", "serverless.json",
			// Services that plan and apply infrastructure.
			"atlantis.yaml", "digger.yml", "digger.yaml",
		},
		dirs: []string{
			".circleci", ".gitlab", ".buildkite", ".woodpecker", ".drone", ".semaphore", ".teamcity", ".tekton", ".builds",
			".azure-pipelines", ".azuredevops", ".jenkins", ".harness", ".prow", ".zuul.d", ".codefresh", ".codebuild", ".cirrus",
			".travis", ".appveyor", ".vercel", ".netlify", ".cds", ".pipelines", ".spacelift",
		},
		paths: []string{
			".gitea/workflows", ".gitea/actions", ".forgejo/workflows", ".forgejo/actions", "zuul.d", ".do",
		},
	},
	{
		kind: runsOnMachines,
		files: []string{
			// Hooks of git, and what begins in a directory by itself.
			"lefthook*.yml", "lefthook*.yaml", "lefthook*.toml", "lefthook*.json", ".lefthook*", ".pre-commit-config.yml",
			".pre-commit-config.yaml", ".pre-commit-hooks.yaml", "prek.toml", ".overcommit.yml", ".huskyrc*", ".lintstagedrc*",
			"lint-staged.config.*", ".simple-git-hooks.*", "simple-git-hooks.*", "hk.pkl", "captainhook*.json", "grumphp.yml*",
			".envrc", "mise.toml", "mise.*.toml", ".mise.toml", ".mise.*.toml",
			// What package managers run before anything else.
			".pnpmfile.cjs", ".pnpmfile.mjs", ".yarnrc.yml",
			// Editors.
			"*.code-workspace", "*.sublime-project", "*.run.xml", ".dir-locals.el", ".dir-locals-2.el", ".nvim.lua", ".nvimrc",
			".exrc", ".vimrc", ".gvimrc", ".lvimrc",
			// Development environments.
			".devcontainer.json", ".gitpod.yml", ".gitpod.yaml", ".gitpod.dockerfile", "devfile.yaml", ".devfile.yaml", ".replit",
			"replit.nix", ".stackblitzrc",
		},
		dirs: []string{
			".husky", ".githooks", ".git-hooks", ".hooks", ".lefthook", ".lefthook-local", ".vscode", ".idea", ".run", ".fleet",
			".zed", ".helix", ".vs", ".vim", ".nvim", ".theia", ".externaltoolbuilders", ".devcontainer", ".gitpod", ".ona",
			".idx", ".codesandbox", ".mise", ".yarn/releases", ".yarn/plugins",
		},
		paths: []string{".config/mise", ".config/mise.toml"},
	},
	{
		kind:  steersGit,
		files: []string{".gitmodules", ".lfsconfig", ".gitconfig"},
	},
	{
		// GitHub and its Apps read settings there: dependabot.yml, settings.yml, FUNDING.yml.
		kind:  configuresServices,
		paths: []string{".github"},
		but: []string{
			".github/issue_template", ".github/issue_template.md", ".github/pull_request_template",
			".github/pull_request_template.md",
		},
	},
}

// covers says whether a path that gitrepo.Fold wrote is of the group.
func (s *steering) covers(p string) bool {
	base := path.Base(p)
	return slices.ContainsFunc(s.files, func(pattern string) bool { ok, _ := path.Match(pattern, base); return ok }) ||
		slices.ContainsFunc(s.dirs, func(dir string) bool { return hasPart(p, dir) }) ||
		below(p, s.paths) && !below(p, s.but)
}

// below says whether a path is one of dirs, or below one.
func below(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return within(p, dir) })
}

// Protects says why only a person may change a path, "" where anybody may. Names count as
// any file system reads them: some do not tell the case of letters apart. more are
// patterns of paths that are protected, too: as path.Match has them, of a whole path
// where they hold a slash, of a name anywhere where they do not; one that ends in a
// slash means everything below.
func Protects(p string, more []string) string {
	p = gitrepo.Fold(p)
	for i := range steered {
		if steered[i].covers(p) {
			return steered[i].kind.reason()
		}
	}
	if slices.ContainsFunc(more, func(pattern string) bool { return matches(gitrepo.Fold(pattern), p) }) {
		return "protected by this repository's settings"
	}
	return ""
}

// matches says whether a pattern of a repository means a path.
func matches(pattern, p string) bool {
	if dir, ok := strings.CutSuffix(pattern, "/"); ok {
		return within(p, dir)
	}
	if !strings.Contains(pattern, "/") {
		p = path.Base(p)
	}
	ok, err := path.Match(pattern, p)
	return ok || err != nil // what cannot be read protects rather too much
}

// SteersAgents says whether a coding agent takes the file at a path for its
// instructions or its configuration, as any file system reads the path.
func SteersAgents(p string) bool {
	p = gitrepo.Fold(p)
	return slices.ContainsFunc(steered, func(s steering) bool { return s.kind == configuresAgents && s.covers(p) })
}

func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

func hasPart(p, name string) bool {
	return strings.Contains("/"+p+"/", "/"+name+"/")
}
