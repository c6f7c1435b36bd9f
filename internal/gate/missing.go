package gate

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// maxMissing bounds what is told of why a check could not run, in bytes.
const maxMissing = 200

// How a shell ends where it cannot run a command (POSIX, XCU 2.8.2).
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

var (
	// lackOf finds what common runners say of what they need and do not find.
	lackOf = []func() *regexp.Regexp{
		strs.Lazy(`^(?:\S*/)?python[\d.]*: (No module named '?[\w.]+)`),
		strs.Lazy(`^(Could not find (?:gem )?\S.*? in (?:locally installed gems|any of the sources|` +
			`rubygems repository).*)$`),
		strs.Lazy(`^error: (no such (?:sub)?command: \S+|failed to (?:get|download) .*)$`),
		strs.Lazy(`^(?:Error: |ERROR: |The )?(JAVA_HOME (?:environment variable )?is (?:not|set to an invalid).*)$`),
		strs.Lazy(`(Could not (?:resolve dependencies for project|transfer artifact|` +
			`resolve all (?:files|dependencies|artifacts)).*)$`),
		strs.Lazy(`((?:java\.net\.UnknownHostException: |dial tcp: lookup )[\w.-]+)`),
	}
	notFound = strs.Lazy(`(?:^|: )([\w./+@-]+): (?:command )?not found$|` +
		`^make(?:\[\d+\])?: ([\w./+@-]+): No such file or directory$|^bundler: command not found: (\S+)|` +
		`^(?:error|\s*ERR_PNPM_\w+)\s+Command "([\w./@-]+)" not found|` +
		`^npm (?:ERR!|error) npx canceled due to missing packages.*\["(@?[^"@]+)`)
	notExecutable = strs.Lazy(`(?:^|: )([\w./+@-]+): (?:Permission denied|cannot execute\b.*|Exec format error)$`)
)

// Missing says what kept a check from running at all, such as a program that is
// not installed: a few words for people, "" where it ran. It is read from what the
// proposal's own code may have printed; only the same words of the tree that the
// work began from make it an excuse.
func Missing(g Gate, r Result) string {
	if r.Passed || r.Reason != "exited" || r.Facts.Passed > 0 {
		return ""
	}
	program, _, _ := strings.Cut(strings.TrimSpace(g.Command), " ")
	find, what := notFound, ": command not found"
	if r.ExitCode == exitNotExecutable {
		find, what = notExecutable, ": cannot be executed"
	}
	// Runners of commands end with a code of their own.
	shell := r.ExitCode == exitNotFound || r.ExitCode == exitNotExecutable || slices.Contains(
		[]string{"make", "just", "task", "npm", "pnpm", "yarn", "composer", "tox", "bundle"}, program)
	for line := range strings.Lines(r.Output) {
		line = strings.TrimRight(line, " \t\r\n")
		for _, lack := range lackOf {
			if m := lack().FindStringSubmatch(line); m != nil {
				return oneLine(m[1], maxMissing)
			}
		}
		if !shell {
			continue
		}
		if m := find().FindStringSubmatch(line); m != nil {
			if name := strings.Join(m[1:], ""); g.needs(name) {
				return oneLine(name+what, maxMissing)
			}
		}
	}
	if (r.ExitCode == exitNotFound || r.ExitCode == exitNotExecutable) && g.needs(program) {
		return program + what
	}
	return ""
}

// needs says whether a command that is not there is no part of the work. One of the tree
// itself may be, unless nobody but us has named it.
func (g Gate) needs(name string) bool {
	return !strings.Contains(name, "/") || path.IsAbs(name) || g.Detected && strings.Contains(g.Command, name)
}

// sameLack says whether two checks lacked the same, whatever numbers they name.
func sameLack(a, b string) bool {
	return a != "" && varying().ReplaceAllString(a, "0") == varying().ReplaceAllString(b, "0")
}

// Provide says what a person does about a check that could not run.
func Provide(g Gate) string {
	const image = ", or use a container image that has it (--sandbox docker --image)"
	if strings.Contains(g.Command, "python") || strings.Contains(g.Command, "pytest") {
		return "list what it needs in requirements.txt, or commit uv.lock or poetry.lock, of which it is installed" + image
	}
	return "install it where checks run, or commit the lock file of which its dependencies are installed" + image
}
