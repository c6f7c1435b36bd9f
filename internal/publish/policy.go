package publish

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/run"
)

const (
	// MaxFile is the size of the largest file that is published. GitHub warns
	// about files of 50 MiB and refuses those of 100.
	MaxFile = 50 << 20
	// MaxRequest bounds a commit in base64, all files together:
	// createCommitOnBranch was seen to fail at about 40 MB.
	MaxRequest = 35 << 20
)

// HeldBack is a change that is not published, and why.
type HeldBack struct{ Path, Reason string }

// PolicyError says that a tree holds changes that are not published.
type PolicyError struct{ Held []HeldBack }

// Error implements error. Paths are quoted: they may hold anything.
func (e *PolicyError) Error() string {
	const most = 5
	var b strings.Builder
	b.WriteString("held back")
	for i, h := range e.Held {
		if i == most {
			fmt.Fprintf(&b, "; and %d more", len(e.Held)-most)
			break
		}
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%s: %s", sep, strconv.Quote(h.Path), h.Reason)
	}
	return b.String()
}

// Screened are changes by what becomes of them.
type Screened struct {
	// Allowed may land.
	Allowed []gitrepo.Change
	// Refused cannot be published at all, or must not be by policy.
	Refused []HeldBack
	// Held are for a person to apply; what else there is may land without them.
	Held []HeldBack
}

// Screen tells the changes that may be published from those that may not: links,
// submodules and names that Git or GitHub cannot carry are refused; protected
// paths, which decide what runs with the repository's permissions or steer agents,
// follow the policy. It looks at paths and modes only; sizes are checked when
// the tree lands.
func Screen(changes []gitrepo.Change, p run.Protection) Screened { return screen(changes, p, nil) }

// screen is Screen where some protected paths may change.
func screen(changes []gitrepo.Change, p run.Protection, own []string) Screened {
	var s Screened
	for _, c := range changes {
		if reason := unfit(c); reason != "" {
			s.Refused = append(s.Refused, HeldBack{Path: c.Path, Reason: reason})
			continue
		}
		reason := protectingRule(c.Path, p)
		switch {
		case reason == "" || slices.Contains(own, c.Path):
			s.Allowed = append(s.Allowed, c)
		case p.Policy == run.ProtectedRefuse:
			s.Refused = append(s.Refused, HeldBack{Path: c.Path, Reason: reason})
		default:
			s.Held = append(s.Held, HeldBack{Path: c.Path, Reason: reason})
		}
	}
	return s
}

// unfit says why a change cannot be published, whoever made it, or "".
func unfit(c gitrepo.Change) string {
	switch {
	case c.NewMode == gitrepo.ModeSymlink:
		return "symbolic link"
	case c.NewMode == gitrepo.ModeSubmodule || c.OldMode == gitrepo.ModeSubmodule:
		return "submodule"
	case !plainMode(c.NewMode) || !plainMode(c.OldMode) && c.OldMode != gitrepo.ModeSymlink:
		return fmt.Sprintf("file mode %o", max(c.NewMode, c.OldMode))
	case c.OldMode == gitrepo.ModeSymlink && c.NewMode != 0:
		return "replaces a symbolic link"
	}
	return badPath(c.Path)
}

// plainMode: a regular file, or none.
func plainMode(mode uint32) bool {
	return mode == 0 || mode == gitrepo.ModeFile || mode == gitrepo.ModeExecutable
}

// badPath says why a path cannot be named in a request to GitHub.
func badPath(p string) string {
	switch {
	case !utf8.ValidString(p):
		return "name is not UTF-8"
	case p == "" || path.IsAbs(p) || path.Clean(p) != p:
		return "not a path within the repository"
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." || strings.EqualFold(part, ".git") {
			return "not a path within the repository"
		}
	}
	if strings.ContainsFunc(p, unicode.IsControl) {
		return "name contains a control character"
	}
	return ""
}

// protectingRule says why a path is protected under a policy, or "". Letters of either
// case count: some file systems do not tell them apart.
func protectingRule(p string, by run.Protection) string {
	p = strings.ToLower(p)
	base := path.Base(p)
	switch {
	case within(p, ".github/workflows"):
		// Whatever policy says: the App lacks the permission for them.
		return "runs with the repository's permissions"
	case by.Policy == run.ProtectedAllow:
		return ""
	case within(p, ".github/actions"):
		return "runs with the repository's permissions"
	case p == ".github/ralph.yml" || p == ".github/ralph.yaml":
		return "configures this bot"
	case base == "codeowners" && (p == base || path.Dir(p) == ".github" || path.Dir(p) == "docs"):
		return "decides who must review"
	case SteersAgents(p):
		return "configures agents"
	case hasPart(p, ".husky"):
		return "runs on contributors' machines"
	case slices.ContainsFunc(by.Paths, func(pattern string) bool { return matches(strings.ToLower(pattern), p) }):
		return "protected by this repository's settings"
	default:
		return ""
	}
}

// matches says whether a pattern of run.Protection means a path.
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

// agentFiles and agentDirs are what coding agents read by themselves, as
// instructions or configuration, wherever in a repository it lies; agentPaths
// are what they read at that place only.
var (
	agentFiles = []string{
		"claude.md", "claude.local.md", "agents.md", "agents.override.md", "agent.md", "gemini.md", "copilot.md", "qwen.md",
		".mcp.json", "opencode.json", "opencode.jsonc", "crush.json", ".crush.json",
		".cursorrules", ".cursorignore", ".windsurfrules", ".clinerules", ".roorules", ".goosehints", ".aider.conf.yml",
		".geminiignore",
	}
	agentDirs = []string{
		".claude", ".claude-plugin", ".codex", ".gemini", ".opencode", ".cursor", ".copilot", ".amp", ".agents", ".agent",
		".windsurf", ".clinerules", ".roo", ".qwen", ".crush", ".goose", ".continue",
	}
	agentPaths = []string{
		".github/copilot-instructions.md", ".github/instructions", ".github/prompts", ".github/chatmodes", ".github/agents",
		".github/skills", ".github/hooks", ".github/copilot", ".github/mcp.json", ".github/lsp.json", ".vscode/mcp.json",
	}
)

// SteersAgents says whether a coding agent takes the file at a path for its
// instructions or its configuration. What it says is true of paths however their
// letters are cased.
func SteersAgents(p string) bool {
	p = strings.ToLower(p)
	return slices.Contains(agentFiles, path.Base(p)) ||
		slices.ContainsFunc(agentDirs, func(dir string) bool { return hasPart(p, dir) }) ||
		slices.ContainsFunc(agentPaths, func(at string) bool { return within(p, at) })
}

func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

func hasPart(p, name string) bool {
	return strings.Contains("/"+p+"/", "/"+name+"/")
}
