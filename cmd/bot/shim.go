package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// shimTimeout bounds the question which program a shim stands for.
const shimTimeout = 10 * time.Second

// calledManager finds the version manager that a shim hands over to.
var calledManager = strs.Lazy(`(?m)^\s*exec\s+"?([^\s"]*?(?:asdf|mise|rtx|pyenv|nodenv|rbenv|goenv))"?\s+(?:exec|x)\s`)

// shimmed is the program that a shim of a version manager stands for, "" where path is no
// shim. A shim itself cannot work in a sandbox: it looks for the person's home and
// configuration. The manager is asked in the home, so that no repository has a say.
func shimmed(ctx context.Context, path string) (string, error) {
	manager := managerOf(path)
	if manager == "" {
		return "", nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the home: %w", err)
	}
	env := proc.ScrubbedEnv("HOME=" + home)
	for _, kv := range os.Environ() {
		for _, prefix := range []string{"ASDF_", "MISE_", "XDG_", "PYENV_", "NODENV_", "RBENV_", "GOENV_", "VOLTA_"} {
			if strings.HasPrefix(kv, prefix) {
				env = append(env, kv)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, shimTimeout)
	defer cancel()
	answer, err := proc.Run(ctx, proc.Cmd{Path: manager, Args: []string{"which", filepath.Base(path)}, Dir: home, Env: env})
	program := strings.TrimSpace(string(answer.Stdout))
	if err == nil && (!filepath.IsAbs(program) || program == path) {
		err = fmt.Errorf("%s which %s says %q", manager, filepath.Base(path), program)
	}
	if err == nil {
		_, err = proc.Look(program)
	}
	if err != nil {
		return "", &run.UserError{
			Message: fmt.Sprintf("%s is a shim of %s, which does not say what program it stands for", path,
				filepath.Base(manager)),
			Hint: fmt.Sprintf("name the program itself with --agent-path, or see what `%s which %s` says in your home",
				filepath.Base(manager), filepath.Base(path)),
			Err: err,
		}
	}
	return program, nil
}

// managerOf is the version manager behind a shim, "" where path is none.
func managerOf(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	switch {
	case filepath.Base(path) == filepath.Base(real):
	case filepath.Base(real) == "mise", filepath.Base(real) == "rtx":
		return real
	case filepath.Base(real) == "volta-shim":
		return filepath.Join(filepath.Dir(real), "volta")
	}
	f, err := os.Open(real) // #nosec G304 G703 -- the agent that the person named
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	head, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil || !strings.HasPrefix(string(head), "#!") {
		return ""
	}
	m := calledManager().FindStringSubmatch(string(head))
	if m == nil {
		return ""
	}
	manager, err := proc.Look(m[1])
	if err != nil {
		return ""
	}
	return manager
}
