package gate

import (
	"path"
	"regexp"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// maxMissing bounds what is told of why a check could not run, in bytes.
const maxMissing = 200

// Missing says what kept a check from running at all, such as a program that is
// not installed: a few words for people, "" where it ran. It is read from what the
// proposal's own code may have printed; only the same words of the tree that the
// work began from make it an excuse.
func Missing(g Gate, r Result) string {
	if r.Passed || r.Reason != "exited" || r.Facts.Passed > 0 {
		return ""
	}
	for line := range strings.Lines(r.Output) {
		if what := lack(g, r.ExitCode, strings.TrimRight(line, " \t\r\n")); what != "" {
			return cutText(what, maxMissing)
		}
	}
	switch r.ExitCode {
	case exitNotFound:
		return own(g, firstWord(g.Command), "command not found")
	case exitNotExecutable:
		return own(g, firstWord(g.Command), "cannot be executed")
	}
	return ""
}

// How a shell ends where it cannot run a command (POSIX, XCU 2.8.2).
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

var (
	noModule = strs.Lazy(`^(?:\S*/)?python[\d.]*(?:\.exe)?: No module named '?([\w.]+)'?`)
	notFound = strs.Lazy(`^(?:\S*sh|make(?:\[\d+\])?|env|npm|line \d+)?(?:: )?(?:line )?(?:\d+: )?` +
		`([\w./+@-]+): (?:command )?not found$`)
	makeNotFound = strs.Lazy(`^make(?:\[\d+\])?: ([\w./+@-]+): No such file or directory$`)
	notPermitted = strs.Lazy(`(?:^|: )([\w./+@-]+): (?:Permission denied|cannot execute\b.*|Exec format error)$`)
	noGem        = strs.Lazy(`^(Could not find (?:gem )?\S.*? in (?:locally installed gems|any of the sources|rubygems repository).*)$`)
	noBundled    = strs.Lazy(`^bundler: command not found: (\S+)`)
	noSubcommand = strs.Lazy("^error: no such (?:sub)?command: [`'](\\S+?)['`]")
	noCrate      = strs.Lazy("^error: (failed to (?:get|download) .*)$")
	noJava       = strs.Lazy(`^(?:Error: |ERROR: |The )?(JAVA_HOME (?:environment variable )?is (?:not|set to an invalid).*)$`)
	noArtifact   = strs.Lazy(`Could not resolve dependencies for project|Could not transfer artifact|` +
		`Could not resolve all (?:files|dependencies|artifacts)`)
	noRunnable = strs.Lazy(`^npm (?:ERR!|error) npx canceled due to missing packages.*\["(@?[^"@]+)|` +
		`^(?:error|\s*ERR_PNPM_\w+)\s+Command "([\w./@-]+)" not found`)
	noHost = strs.Lazy(`(?:java\.net\.UnknownHostException: |dial tcp: lookup )([\w.-]+)`)
)

// lack is what one line of the output of a check says that is not there, ""
// for nothing.
func lack(g Gate, code int, line string) string {
	find := func(re func() *regexp.Regexp) string {
		if m := re().FindStringSubmatch(line); m != nil {
			return m[len(m)-1]
		}
		return ""
	}
	if name := find(noModule); name != "" {
		return "No module named " + name
	}
	if name := find(notFound); name != "" && (code == exitNotFound || g.runner()) {
		return own(g, name, "command not found")
	}
	if name := find(makeNotFound); name != "" && g.runner() {
		return own(g, name, "command not found")
	}
	if name := find(notPermitted); name != "" && code == exitNotExecutable {
		return own(g, name, "cannot be executed")
	}
	if name := find(noBundled); name != "" {
		return own(g, name, "command not found")
	}
	if name := find(noSubcommand); name != "" {
		return "cargo has no command " + name
	}
	for _, said := range []func() *regexp.Regexp{noGem, noCrate, noJava} {
		if what := find(said); what != "" {
			return what
		}
	}
	if noArtifact().MatchString(line) {
		return "its dependencies could not be downloaded"
	}
	if name := find(noHost); name != "" {
		return "cannot reach " + name
	}
	if name := group(noRunnable, line); name != "" {
		return own(g, name, "command not found")
	}
	return ""
}

// group is the first group of the expression that a line has.
func group(re func() *regexp.Regexp, line string) string {
	for i, m := range re().FindStringSubmatch(line) {
		if i > 0 && m != "" {
			return m
		}
	}
	return ""
}

// runner says whether the command runs others and ends with a code of its own.
func (g Gate) runner() bool {
	switch firstWord(g.Command) {
	case "make", "just", "task", "npm", "pnpm", "yarn", "composer", "tox", "bundle":
		return true
	}
	return false
}

// own is what is said of a command that cannot run. One of the tree itself may be
// what the work is about, unless nobody but us has named it.
func own(g Gate, name, what string) string {
	if strings.Contains(name, "/") && !path.IsAbs(name) && !(g.Detected && strings.Contains(g.Command, name)) {
		return ""
	}
	return name + ": " + what
}

func firstWord(command string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(command), " ")
	return word
}

// sameLack says whether two checks lacked the same, whatever numbers they name.
func sameLack(a, b string) bool {
	return a != "" && varying().ReplaceAllString(a, "0") == varying().ReplaceAllString(b, "0")
}

// Provide says what a person does about a check that could not run.
func Provide(g Gate) string {
	const image = "; or use a container image that has it (--sandbox docker --image)"
	for _, way := range []struct{ command, say string }{
		{"python", "list what it needs in requirements.txt, or commit uv.lock or poetry.lock: that is installed into a .venv"},
		{"pytest", "list it in requirements.txt and run `python3 -m pytest`, which finds it in the .venv made of that"},
		{"tox", "install tox where checks run"},
		{"npm", "commit the lock file, of which its dependencies are installed"},
		{"pnpm", "install pnpm where checks run, and commit the lock file"},
		{"yarn", "install yarn where checks run, and commit the lock file"},
		{"bundle", "install bundler where checks run, and commit Gemfile.lock"},
		{"cargo", "install Rust where checks run"},
		{"mvn", "install a JDK and Maven where checks run, or commit the wrapper mvnw"},
		{"./mvnw", "install a JDK where checks run, and make mvnw executable (git update-index --chmod=+x mvnw)"},
		{"gradle", "install a JDK and Gradle where checks run, or commit the wrapper gradlew"},
		{"./gradlew", "install a JDK where checks run, and make gradlew executable (git update-index --chmod=+x gradlew)"},
	} {
		if strings.HasPrefix(firstWord(g.Command), way.command) {
			return way.say + image
		}
	}
	return "install it where checks run" + image
}
