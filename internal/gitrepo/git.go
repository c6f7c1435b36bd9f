package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
)

// The oldest git that has everything used here.
const minMajor, minMinor = 2, 39

// Git runs the git program. It holds no state and may be shared.
type Git struct {
	path, version string
	running       sync.Map // the helpers whose process is there
}

// Close ends the processes that wait for the next question about a repository. More
// questions may follow: they start new ones.
func (g *Git) Close() {
	g.running.Range(func(key, _ any) bool {
		if h, ok := key.(*helper); ok {
			h.mu.Lock()
			h.end()
			h.mu.Unlock()
		}
		return true
	})
}

// New checks the program at gitPath; an empty path means the git in PATH. A
// missing or too old git is a *run.UserError.
func New(gitPath string) (*Git, error) {
	if gitPath == "" {
		found, err := proc.Look("git")
		if err != nil {
			return nil, &run.UserError{Message: "git is not installed", Hint: gitHint(), Err: err}
		}
		gitPath = found
	}
	g := &Git{path: gitPath}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := g.run(ctx, call{args: []string{"version"}})
	if err != nil {
		return nil, &run.UserError{Message: "git does not run", Hint: gitHint(), Err: err}
	}
	if !recentEnough(string(out)) {
		return nil, &run.UserError{
			Message: fmt.Sprintf("%s is too old", strings.TrimSpace(string(out))), Hint: gitHint(),
		}
	}
	g.version = strings.TrimSpace(string(out))
	return g, nil
}

// Version is what git says of itself: "git version 2.39.5".
func (g *Git) Version() string { return g.version }

func gitHint() string {
	return fmt.Sprintf("install git %d.%d or newer", minMajor, minMinor)
}

// recentEnough reads the answer of git version: "git version 2.39.5 (Apple …)".
func recentEnough(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "git version %d.%d", &major, &minor) // what cannot be read is not
	return n == 2 && (major > minMajor || major == minMajor && minor >= minMinor)
}

// call is one git process.
type call struct {
	args []string
	// env is added to the base environment.
	env []string
	// config is added as -c options.
	config []string
	dir    string
	// personal runs git as the person would: with their environment, configuration
	// and credentials, but without hooks.
	personal bool
	stdin    io.Reader
	stdout   io.Writer
	limit    int64
}

// baseEnv is all that git inherits.
func baseEnv() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), // for git's own helpers
		"LC_ALL=C",
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_NO_LAZY_FETCH=1",
		"HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
	}
}

// baseConfig outranks every configuration file.
func baseConfig() []string {
	return []string{
		"core.hooksPath=" + os.DevNull,
		"core.fsmonitor=false",
		"core.attributesFile=" + os.DevNull,
		"core.excludesFile=" + os.DevNull,
		"core.alternateRefsCommand=",
		"core.askPass=",
		"core.sshCommand=false",
		"credential.helper=",
		"diff.external=",
		"gc.auto=0",
		"maintenance.auto=false",
		"log.showSignature=false",
		"submodule.recurse=false",
		"protocol.allow=never",
		"protocol.http.allow=always",
		"protocol.https.allow=always",
		"http.followRedirects=false",
	}
}

// run starts git and returns its output. More output than the limit is
// ErrTooLarge, with the beginning of the output.
func (g *Git) run(ctx context.Context, c call) ([]byte, error) {
	args := []string{"--no-pager"}
	config, env := baseConfig(), baseEnv()
	if c.personal {
		config, env = personalConfig(), personalEnv()
	}
	for _, kv := range config {
		args = append(args, "-c", kv)
	}
	for _, kv := range c.config {
		args = append(args, "-c", kv)
	}
	limit := c.limit
	if limit <= 0 && c.stdout == nil {
		limit = 256 << 20 // listings of very large trees
	}
	dir := c.dir
	if dir == "" {
		dir = "/" // never the caller's working directory, which may be anyone's
	}
	res, err := proc.Run(ctx, proc.Cmd{
		Path: g.path, Args: append(args, c.args...), Dir: dir, Env: append(env, c.env...),
		Stdin: c.stdin, Stdout: c.stdout, StdoutLimit: limit,
	})
	if err != nil {
		return res.Stdout, fmt.Errorf("git %s: %w", c.args[0], err)
	}
	if res.StdoutTruncated {
		return res.Stdout, fmt.Errorf("git %s: output %w", c.args[0], ErrTooLarge)
	}
	return res.Stdout, nil
}

// exitCode is the exit status that git ended with, or -1.
func exitCode(err error) int {
	if exit, ok := errors.AsType[*proc.ExitError](err); ok && exit.Cause == nil {
		return exit.Code
	}
	return -1
}

// stderrOf is what git said, or "".
func stderrOf(err error) string {
	if exit, ok := errors.AsType[*proc.ExitError](err); ok {
		return string(exit.Stderr)
	}
	return ""
}
