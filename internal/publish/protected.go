package publish

import (
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/org/ralph-action/internal/gitrepo"
)

// steering is a group of files that machines follow, and why an agent must not change them.
type steering struct {
	reason string
	// patterns are as [gitrepo.Fold] writes names: "name" of a file anywhere, with path.Match's wildcards; "dir/" what
	// is below a directory anywhere; "/path" a whole path and all below, which "!" in front leaves out.
	patterns []string
}

const configuresAgents = "configures agents"

// steered is everything that is protected by default. It goes by names that mean
// something to a program of their own accord; what only a build reads is not in it.
// The first group that a path is of gives the reason. Of the last one, GitHub and its
// Apps read what is there: dependabot.yml, settings.yml, FUNDING.yml.
var steered = sync.OnceValue(func() []steering {
	return []steering{
		{"runs with the repository's permissions", strings.Fields(`
			/.github/workflows /.github/actions
		`)},
		{"configures this bot", strings.Fields(`
			/.github/ralph.yml /.github/ralph.yaml
		`)},
		{"configures services that act on the repository", strings.Fields(`
			.mergify.yml .kodiak.toml .bulldozer.yml .policy.yml renovate.json renovate.json5 .renovaterc .renovaterc.json
			.renovaterc.json5 .coderabbit.yaml .coderabbit.yml .pr_agent.toml .mergify/
		`)},
		{"decides who must review", strings.Fields(`
			owners owners_aliases /codeowners /.github/codeowners /docs/codeowners /.gitlab/codeowners /.gitea/codeowners
			/.forgejo/codeowners
		`)},
		{configuresAgents, strings.Fields(`
			claude.md claude.local.md agents.md agents.override.md agent.md gemini.md copilot.md qwen.md warp.md .mcp.json
			opencode.json opencode.jsonc crush.json .crush.json .claude.json .cursorrules .cursorignore .windsurfrules
			.clinerules .roorules .roorules-* .roomodes .kilocoderules .kilocodemodes .goosehints .aider*.yml .aider*.json
			.geminiignore .rules .augment-guidelines .ampcoderc .claude/ .claude-plugin/ .codex/ .gemini/ .opencode/
			.cursor/ .copilot/ .amp/ .agents/ .agent/ .windsurf/ .clinerules/ .roo/ .qwen/ .crush/ .goose/ .continue/ .kiro/
			.junie/ .trae/ .augment/ .kilocode/ .factory/ .openhands/ .devin/ .amazonq/ .aiassistant/ .tabnine/ .zencoder/
			.ruler/ /.github/copilot-instructions.md /.github/instructions /.github/prompts /.github/chatmodes
			/.github/agents /.github/skills /.github/hooks /.github/copilot /.github/mcp.json /.github/lsp.json
			/.vscode/mcp.json
		`)},
		{"runs in CI or on deployment", strings.Fields(`
			.gitlab-ci*.yml .gitlab-ci*.yaml *.gitlab-ci.yml *.gitlab-ci.yaml circle.yml jenkinsfile jenkinsfile.*
			jenkinsfile-* *.jenkinsfile *-jenkinsfile azure-pipelines*.yml azure-pipelines*.yaml .azure-pipelines*.yml
			.azure-pipelines*.yaml .vsts-ci.yml .drone.* .travis.yml .travis.yaml bitbucket-pipelines.yml
			bitbucket-pipelines.yaml .woodpecker*.yml .woodpecker*.yaml appveyor*.yml appveyor*.yaml .appveyor*.yml
			.appveyor*.yaml .cirrus.* .buildkite.yml .buildkite.yaml buildkite.yml buildkite.yaml codefresh*.yml
			codefresh*.yaml cloudbuild*.yml cloudbuild*.yaml cloudbuild*.json buildspec*.yml buildspec*.yaml appspec.yml
			appspec.yaml .build.yml wercker.yml screwdriver.yaml bitrise.yml codemagic.yaml .scrutinizer.yml .semaphore.yml
			.prow.yaml .zuul.yaml zuul.yaml .packit.yaml .packit.yml packit.yaml .readthedocs.yml .readthedocs.yaml
			readthedocs.yml .taskcluster.yml .cds.yml netlify.toml vercel.json vercel.ts now.json render.yaml amplify.yml
			heroku.yml railway.json railway.toml fly.toml wrangler.toml wrangler.json wrangler.jsonc apphosting*.yaml
			firebase.json serverless.yml serverless.yaml serverless.ts serverless.json atlantis.yaml digger.yml digger.yaml
			.circleci/ .gitlab/ .buildkite/ .woodpecker/ .drone/ .semaphore/ .teamcity/ .tekton/ .builds/ .azure-pipelines/
			.azuredevops/ .jenkins/ .harness/ .prow/ .zuul.d/ .codefresh/ .codebuild/ .cirrus/ .travis/ .appveyor/ .vercel/
			.netlify/ .cds/ .pipelines/ .spacelift/ /.gitea/workflows /.gitea/actions /.forgejo/workflows /.forgejo/actions
			/zuul.d /.do
		`)},
		{"runs on contributors' machines", strings.Fields(`
			lefthook*.yml lefthook*.yaml lefthook*.toml lefthook*.json .lefthook* .pre-commit-config.yml
			.pre-commit-config.yaml .pre-commit-hooks.yaml prek.toml .overcommit.yml .huskyrc* .lintstagedrc*
			lint-staged.config.* .simple-git-hooks.* simple-git-hooks.* hk.pkl captainhook*.json grumphp.yml* .envrc
			mise.toml mise.*.toml .mise.toml .mise.*.toml .pnpmfile.cjs .pnpmfile.mjs .yarnrc.yml *.code-workspace
			*.sublime-project *.run.xml .dir-locals.el .dir-locals-2.el .nvim.lua .nvimrc .exrc .vimrc .gvimrc .lvimrc
			.devcontainer.json .gitpod.yml .gitpod.yaml .gitpod.dockerfile devfile.yaml .devfile.yaml .replit replit.nix
			.stackblitzrc .husky/ .githooks/ .git-hooks/ .hooks/ .lefthook/ .lefthook-local/ .vscode/ .idea/ .run/ .fleet/
			.zed/ .helix/ .vs/ .vim/ .nvim/ .theia/ .externaltoolbuilders/ .devcontainer/ .gitpod/ .ona/ .idx/ .codesandbox/
			.mise/ .yarn/releases/ .yarn/plugins/ /.config/mise /.config/mise.toml
		`)},
		{"tells git where code comes from", strings.Fields(`
			.gitmodules .lfsconfig .gitconfig
		`)},
		{"configures services that act on the repository", strings.Fields(`
			!/.github/issue_template !/.github/issue_template.md !/.github/pull_request_template
			!/.github/pull_request_template.md /.github
		`)},
	}
})

// covers says whether a path that gitrepo.Fold wrote is of the group.
func (s *steering) covers(p string) bool {
	base := path.Base(p)
	for _, pattern := range s.patterns {
		if left, ok := strings.CutPrefix(pattern, "!/"); ok {
			if within(p, left) {
				return false
			}
			continue
		}
		if whole, ok := strings.CutPrefix(pattern, "/"); ok && within(p, whole) {
			return true
		}
		if dir, ok := strings.CutSuffix(pattern, "/"); ok && strings.Contains("/"+p+"/", "/"+dir+"/") {
			return true
		}
		if ok, _ := path.Match(pattern, base); ok {
			return true
		}
	}
	return false
}

// Protects says why only a person may change a path, "" where anybody may. Names count as
// any file system reads them: some do not tell the case of letters apart. more are
// patterns of paths that are protected, too: as path.Match has them, of a whole path
// where they hold a slash, of a name anywhere where they do not; one that ends in a
// slash means everything below.
func Protects(p string, more []string) string {
	p = gitrepo.Fold(p)
	for _, s := range steered() {
		if s.covers(p) {
			return s.reason
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
	return slices.ContainsFunc(steered(), func(s steering) bool { return s.reason == configuresAgents && s.covers(p) })
}

func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
