package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/docker"
	"github.com/org/ralph-action/internal/strs"
)

// evalCmd is `bot eval`: a plan is run in a repository of its own, and what comes of
// it is scored by commands that no agent has seen.
type evalCmd struct {
	Folder string   `arg:"" help:"The folder of the evaluation: a plan (plan.md, prompt.md, prompt.txt or prd.json), score/*.sh, and if you like repo/ and hidden/." type:"path"`
	Flags  []string `arg:"" optional:"" name:"flags" help:"Flags for ${bot} run, after --, such as -- --agent codex --budget 2."`

	sandboxFlags
	JSON bool `name:"json" help:"Print one JSON document on stdout."`

	// ownImage is that of the person's own file, userErr what is wrong with that file.
	ownImage string
	userErr  error
}

// Help is shown below the flags.
func (c *evalCmd) Help() string {
	return `The plan is run in a new repository with the files of repo/. Then the files of hidden/ are laid over the result and each score/NAME.sh runs there, in the sandbox: exit code 0 is a point. The exit code is 0 if all points were made, 1 if not. Repository, transcripts and result are kept in the data directory.`
}

// The parts of an evaluation's folder, and where its scripts lie in the result.
const (
	evalRepo    = "repo"
	evalHidden  = "hidden"
	evalScore   = "score"
	evalScripts = ".ralph-eval"
)

// scoreTimeout and scoreOutput bound each script, maxResult what the run prints.
const (
	scoreTimeout = 10 * time.Minute
	scoreOutput  = 64 << 10
	maxResult    = 64 << 20
)

// evaluation is what `bot eval --json` prints.
type evaluation struct {
	Eval string `json:"eval"`
	// Points were made of Total.
	Points     int             `json:"points"`
	Total      int             `json:"total"`
	Scores     []score         `json:"scores"`
	EndReason  run.EndReason   `json:"end_reason"`
	CostUSD    float64         `json:"cost_usd"`
	Seconds    float64         `json:"seconds"`
	Calls      int             `json:"calls"`
	Trajectory []trajectory    `json:"trajectory"`
	Directory  string          `json:"directory"`
	Run        json.RawMessage `json:"run"`
}

// score is what one script said.
type score struct {
	Name     string `json:"name"`
	Passed   bool   `json:"passed"`
	ExitCode int    `json:"exit_code"`
	// Output is the end of what it printed.
	Output string `json:"output,omitempty"`
}

// trajectory is one agent call and what came of it.
type trajectory struct {
	Iteration int      `json:"iteration"`
	Task      string   `json:"task,omitempty"`
	Role      run.Role `json:"role"`
	CostUSD   float64  `json:"cost_usd"`
	Outcome   string   `json:"outcome"`
}

// Run runs the plan and scores the result.
func (c *evalCmd) Run(ctx bound, io stdio) error {
	if c.userErr != nil {
		return c.userErr
	}
	if err := c.checkFlags(); err != nil {
		return err
	}
	name, planFile, scripts, err := c.look()
	if err != nil {
		return err
	}
	data, err := dataDir()
	if err != nil {
		return err
	}
	base := filepath.Join(data, "evals")
	if err := os.MkdirAll(base, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", base, err)
	}
	dir, err := os.MkdirTemp(base, time.Now().UTC().Format("20060102-150405-"))
	if err != nil {
		return fmt.Errorf("make a directory for the evaluation: %w", err)
	}
	repo := filepath.Join(dir, name)
	if err := c.lay(ctx, repo); err != nil {
		return err
	}
	begun := time.Now()
	doc, err := c.work(ctx, io, repo, filepath.Join(dir, "data"), planFile)
	if err != nil {
		return err
	}
	var r result
	if err := json.Unmarshal(doc, &r); err != nil {
		return fmt.Errorf("read the result of the run: %w", err)
	}
	e := evaluation{
		Eval: name, Total: len(scripts), EndReason: r.Run.EndReason, CostUSD: r.Run.CostUSD, Seconds: time.Since(begun).Seconds(),
		Calls: len(r.Calls), Trajectory: trajectoryOf(r), Directory: dir, Run: doc,
	}
	if e.Scores, err = c.score(ctx, dir, repo, scripts); err != nil {
		return err
	}
	for _, s := range e.Scores {
		if s.Passed {
			e.Points++
		}
	}
	if c.JSON {
		err = printJSON(io.out, e)
	} else {
		_, err = fmt.Fprint(forPeople(io.out), e.text())
	}
	if err == nil && e.Points < e.Total {
		return ended{run.ExitFailed}
	}
	return err
}

// checkFlags refuses flags for the run that the evaluation has to know itself.
func (c *evalCmd) checkFlags() error {
	for _, flag := range c.Flags {
		switch name, _, _ := strings.Cut(flag, "="); name {
		case "--sandbox", "--local-isolation", "--image":
			return &run.UserError{
				Message: name + " is chosen before --: it is that of the scripts, too", Hint: "write it in front of --",
			}
		case "--worktree":
			return &run.UserError{
				Message: "--worktree would leave the result where no script looks for it", Hint: "leave it out",
			}
		}
	}
	return nil
}

// look finds the plan and the scripts of the folder.
func (c *evalCmd) look() (name, planFile string, scripts []string, err error) {
	for _, file := range []string{"plan.md", "prompt.md", "prompt.txt", "prd.json"} {
		at := filepath.Join(c.Folder, file)
		if info, err := os.Stat(at); err == nil && info.Mode().IsRegular() {
			planFile = at
			break
		}
	}
	found, err := filepath.Glob(filepath.Join(c.Folder, evalScore, "*.sh"))
	if err != nil || planFile == "" || len(found) == 0 {
		return "", "", nil, &run.UserError{
			Message: c.Folder + " is no evaluation: it needs a plan and at least one script in " + evalScore + "/",
			Hint:    "write plan.md, and " + evalScore + "/works.sh that ends with 0 where the result is good", Err: err,
		}
	}
	for _, at := range found {
		scripts = append(scripts, filepath.Base(at))
	}
	return filepath.Base(c.Folder), planFile, scripts, nil
}

// lay makes the repository that the plan is worked in.
func (c *evalCmd) lay(ctx context.Context, repo string) error {
	if err := os.MkdirAll(repo, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", repo, err)
	}
	if from := filepath.Join(c.Folder, evalRepo); isDir(from) {
		if err := os.CopyFS(repo, os.DirFS(from)); err != nil {
			return fmt.Errorf("copy the files of the evaluation: %w", err)
		}
	}
	git, err := lookGit()
	if err != nil {
		return err
	}
	for _, line := range []string{
		"-c init.defaultBranch=main init -q", "config user.name eval", "config user.email eval@localhost", "add -A",
		"commit -q --allow-empty -m begin",
	} {
		cmd := proc.Cmd{Path: git, Args: strings.Fields(line), Dir: repo, Env: proc.ScrubbedEnv("GIT_CONFIG_GLOBAL=/dev/null")}
		if _, err := proc.Run(ctx, cmd); err != nil {
			return fmt.Errorf("begin the repository of the evaluation: %w", err)
		}
	}
	return nil
}

func isDir(name string) bool {
	info, err := os.Stat(name) // #nosec G703 -- the folder a person named
	return err == nil && info.IsDir()
}

// work has `bot run` work the plan in repo, and gives the JSON it prints. Agents do
// not see the folder of the evaluation: it is named as the place of a secret.
func (c *evalCmd) work(ctx context.Context, io stdio, repo, data, planFile string) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	args := []string{"run", planFile, "--json", "--no-worktree", "--sandbox", c.Sandbox, "--local-isolation", c.LocalIsolation}
	if c.Image != "" {
		args = append(args, "--image", c.Image)
	}
	res, err := proc.Run(ctx, proc.Cmd{
		Path: self, Args: append(args, c.Flags...), Dir: repo, Stderr: io.err, StdoutLimit: maxResult,
		Env: append(os.Environ(), "RALPH_DATA_DIR="+data, "RALPH_EVAL_FILE="+c.Folder),
	})
	if exit, ok := errors.AsType[*proc.ExitError](err); ok && (len(res.Stdout) == 0 || ctx.Err() != nil) {
		return nil, ended{max(exit.Code, run.ExitFailed)} // it has said why
	} else if err != nil && !ok {
		return nil, fmt.Errorf("run the plan: %w", err)
	}
	return res.Stdout, nil
}

// score runs the scripts in the result. What is scored may write there as it likes, so
// that the scripts and the hidden files are laid anew before each.
func (c *evalCmd) score(ctx context.Context, dir, repo string, scripts []string) ([]score, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	image := ""
	if c.Sandbox == agent.SandboxDocker {
		image = cmp.Or(c.Image, c.ownImage)
	}
	box, err := openSandbox(ctx, c.Sandbox, docker.Options{Self: self, Image: image, DataDir: filepath.Join(dir, "data")},
		c.LocalIsolation, append(portablePaths(), c.Folder), false)
	if err != nil {
		return nil, err
	}
	var out []score
	for i, script := range scripts {
		if err := c.layScripts(repo); err != nil {
			return nil, err
		}
		tree, err := box.Prepare(ctx, repo)
		if err != nil {
			return nil, err
		}
		s, err := runScore(ctx, box, sandbox.Spec{
			Argv: []string{"sh", "-c", `exec sh "$0" 2>&1`, path.Join(evalScripts, script)}, Workspace: tree, Image: image,
			RunDir: filepath.Join(dir, "score", script), WallTimeout: scoreTimeout, OutputLimit: scoreOutput,
			OnOwnerDeath: sandbox.KillWithOwner,
		}, fmt.Sprintf("%s-score-%d", filepath.Base(dir), i))
		if err != nil {
			return nil, err
		}
		if _, err := box.Collect(ctx, tree); err != nil {
			return nil, err
		}
		s.Name = strings.TrimSuffix(script, ".sh")
		out = append(out, s)
	}
	return out, nil
}

// layScripts lays the hidden files and the scripts over the result.
func (c *evalCmd) layScripts(repo string) error {
	root, err := os.OpenRoot(repo)
	if err != nil {
		return fmt.Errorf("open the result: %w", err)
	}
	defer func() { _ = root.Close() }()
	if err := root.RemoveAll(evalScripts); err != nil {
		return fmt.Errorf("clear the result: %w", err)
	}
	for to, from := range map[string]string{".": evalHidden, evalScripts: evalScore} {
		if at := filepath.Join(c.Folder, from); isDir(at) {
			if err := layOver(root, to, os.DirFS(at)); err != nil {
				return err
			}
		}
	}
	return nil
}

// layOver writes files below dir, in the place of what is there. What an agent made a
// link is not followed out of the root.
func layOver(root *os.Root, dir string, files fs.FS) error {
	return fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		src, err := fs.ReadFile(files, name)
		if err != nil {
			return fmt.Errorf("read a file of the evaluation: %w", err)
		}
		to := path.Join(dir, name)
		if err := root.MkdirAll(path.Dir(to), 0o700); err != nil {
			return fmt.Errorf("lay %s over the result: %w", to, err)
		}
		if err := root.RemoveAll(to); err != nil {
			return fmt.Errorf("lay %s over the result: %w", to, err)
		}
		mode := fs.FileMode(0o600)
		if info, err := d.Info(); err == nil && info.Mode()&0o100 != 0 {
			mode = 0o700
		}
		if err := root.WriteFile(to, src, mode); err != nil {
			return fmt.Errorf("lay %s over the result: %w", to, err)
		}
		return nil
	})
}

// runScore runs one script to its end.
func runScore(ctx context.Context, box sandbox.Sandbox, spec sandbox.Spec, name string) (s score, err error) {
	h, err := box.Start(ctx, name, spec)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, box.Remove(context.WithoutCancel(ctx), h)) }()
	status, err := box.Wait(ctx, h)
	if err != nil {
		return s, err
	}
	logs, err := box.Logs(ctx, h, 0)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, logs.Close()) }()
	said, err := io.ReadAll(io.LimitReader(logs, scoreOutput))
	if err != nil {
		return s, fmt.Errorf("read what a script said: %w", err)
	}
	s.ExitCode = status.ExitCode
	s.Passed = status.State == sandbox.Exited && status.Reason == sandbox.ReasonExited && status.ExitCode == 0
	s.Output = string(bytes.ToValidUTF8(said[max(0, len(said)-4000):], []byte("�")))
	return s, nil
}

// trajectoryOf says what came of each call.
func trajectoryOf(r result) []trajectory {
	all := []trajectory{}
	missed := r.Attempts
	for _, call := range r.Calls {
		t := trajectory{Iteration: call.Iteration, Task: call.Task, Role: call.Role, CostUSD: call.CostUSD, Outcome: "landed"}
		switch {
		case len(missed) > 0 && missed[0].Iteration == call.Iteration && missed[0].Task == call.Task &&
			missed[0].Role == call.Role:
			t.Outcome = missed[0].Outcome + ": " + missed[0].Note
			missed = missed[1:]
		case call.Task == "":
			t.Outcome = ""
		}
		all = append(all, t)
	}
	return all
}

// text is the evaluation for people.
func (e evaluation) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d of %s\n", e.Eval, e.Points, strs.Count(e.Total, "point"))
	for _, s := range e.Scores {
		if s.Passed {
			fmt.Fprintf(&b, "  ✓ %s\n", s.Name)
			continue
		}
		fmt.Fprintf(&b, "  ✗ %s: exit code %d: %s\n", s.Name, s.ExitCode, lastLine(s.Output))
	}
	fmt.Fprintf(&b, "The run: %s, %s, $%.2f, %s\n", e.EndReason, strs.Count(e.Calls, "agent call"), e.CostUSD,
		(time.Duration(e.Seconds * float64(time.Second))).Round(100*time.Millisecond))
	for _, t := range e.Trajectory {
		fmt.Fprintf(&b, "  iteration %d  %s\n", t.Iteration,
			run.PrintableLine(strings.TrimSpace(fmt.Sprintf("%s %s  $%.2f  %s", t.Task, t.Role, t.CostUSD, t.Outcome))))
	}
	fmt.Fprintf(&b, "Kept in %s\n", e.Directory)
	return b.String()
}

// lastLine is the last line of a text that says something.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return run.PrintableLine(strs.OneLine(text[strings.LastIndexByte(text, '\n')+1:]))
}
