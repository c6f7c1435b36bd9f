package inline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// ReadLoop reads the loop that is at work in the checkout around dir; ok is false where
// there is none.
func ReadLoop(ctx context.Context, git *gitrepo.Git, dir string) (_ plan.Loop, ok bool, err error) {
	repo, err := git.OpenLocal(ctx, dir)
	if err != nil {
		return plan.Loop{}, false, err
	}
	return readLoop(repo.Top())
}

func readLoop(top string) (_ plan.Loop, ok bool, err error) {
	root, err := os.OpenRoot(top)
	if err != nil {
		return plan.Loop{}, false, fmt.Errorf("open the checkout: %w", err)
	}
	defer func() { _ = root.Close() }()
	src, err := progress.ReadBytes(root, plan.LoopFile)
	if errors.Is(err, fs.ErrNotExist) {
		return plan.Loop{}, false, nil
	}
	var l plan.Loop
	if err == nil {
		l, err = plan.ReadLoop(src)
	}
	if err != nil {
		return plan.Loop{}, false, &run.UserError{
			Message: plan.LoopFile + " cannot be read: " + err.Error(), Hint: "remove it, and pass the prompt to `ralph-bot run`",
			Err: err,
		}
	}
	return l, l.Active, nil
}

// loopNote is the run's loop file in the checkout. It tells people how far the run is, and
// whoever takes it away stops the run; nothing that the run decides is read from it.
type loopNote struct {
	top  string
	loop plan.Loop
	// written is the iteration that the file tells, 0 before there is one.
	written int
}

// openLoop writes the file for a run that begins, or goes on.
func (o Options) openLoop(ctx context.Context, repo *gitrepo.Repo, s loop.State) (*loopNote, error) {
	_, head, err := repo.Head(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := repo.ReadFile(ctx, head, plan.LoopFile, progress.MaxSize); !errors.Is(err, gitrepo.ErrNotFound) {
		if err != nil && !errors.Is(err, gitrepo.ErrTooLarge) {
			return nil, err
		}
		return nil, &run.UserError{
			Message: plan.LoopFile + " is committed, and would change with each call",
			Hint:    "remove it from the repository: git rm --cached " + plan.LoopFile,
		}
	}
	now := plan.NewLoop(s.Plan.Text, s.Promise, s.Limits.MaxIterations, s.StartedAt)
	there, active, err := readLoop(repo.Top())
	if err != nil {
		return nil, err
	}
	if active && asPlan(there.Prompt) != asPlan(now.Prompt) {
		return nil, &run.UserError{
			Message: "another loop is at work in this checkout: " + plan.LoopFile,
			Hint:    "remove that file to cancel it, or run the command that began it to continue it",
		}
	}
	n := &loopNote{top: repo.Top(), loop: now}
	return n, n.tell(s)
}

// asPlan is a prompt as plans have it: the text of a file that somebody wrote was not
// cleaned yet.
func asPlan(prompt string) string {
	prompt = strings.ReplaceAll(prompt, "\r\n", "\n")
	if p, err := plan.FromText(prompt); err == nil {
		prompt = p.Text
	}
	return strings.TrimSpace(prompt)
}

// tell writes which iteration the run is at, where that is not what the file says.
func (n *loopNote) tell(s loop.State) error {
	at := max(s.Iterations(), 1)
	if at == n.written {
		return nil
	}
	root, err := os.OpenRoot(n.top)
	if err != nil {
		return fmt.Errorf("open the checkout: %w", err)
	}
	defer func() { _ = root.Close() }()
	n.loop.Iteration, n.loop.MaxIterations = at, max(s.Limits.MaxIterations, 0)
	if err := progress.Write(root, plan.LoopFile, n.loop.Bytes()); err != nil {
		return err
	}
	n.written = at
	return nil
}

// steer has the driver keep the file, and stop the run where it is gone.
func (n *loopNote) steer(d *loop.Driver) {
	before := d.Steer
	d.Steer = func(ctx context.Context, s loop.State) (_ loop.State, hold bool, err error) {
		if before != nil {
			if s, hold, err = before(ctx, s); err != nil {
				return s, hold, err
			}
		}
		if s.Phase.Terminal() || s.StopAfterCall != "" || s.CancelRequested {
			return s, hold, nil
		}
		// One that cannot be read is there: somebody may be writing it.
		if _, active, err := readLoop(n.top); err == nil && !active {
			s.StopAfterCall = plan.LoopFile + " was removed"
			return s, hold, nil
		}
		return s, hold, n.tell(s)
	}
}

// close takes the file away once the run has ended. One that was cut off finds it.
func (n *loopNote) close(s loop.State) error {
	if !s.Phase.Terminal() {
		return nil
	}
	root, err := os.OpenRoot(n.top)
	if err != nil {
		return fmt.Errorf("open the checkout: %w", err)
	}
	defer func() { _ = root.Close() }()
	if err := root.Remove(filepath.FromSlash(plan.LoopFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", plan.LoopFile, err)
	}
	// The folder goes with it where the run has made it.
	_ = root.Remove(filepath.Dir(plan.LoopFile))
	return nil
}
