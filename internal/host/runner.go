package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
)

// imagePause is how soon an image is looked for again.
const imagePause = 30 * time.Second

// promptName is the prompt's file in a start's directory.
const promptName = "prompt.md"

// StartAgent implements loop.Runner.
func (h *Host) StartAgent(ctx context.Context, s loop.State, a loop.AgentStart) (loop.Handle, error) {
	if err := h.room(); err != nil {
		return "", err
	}
	repo, wt, err := h.worktree(ctx)
	if err != nil {
		return "", err
	}
	dir := h.start(a.Name)
	promptFile := filepath.Join(dir, promptName)
	note := startNote{Tree: s.HeadTree, Progress: a.ProgressPath, Model: a.Model, Agent: h.describe(s, a)}
	if err := h.once(a.Name, note, func() error { return h.layOutAgent(ctx, s, a, repo, wt) }); err != nil {
		return "", fmt.Errorf("prepare %s: %w", a.Name, err)
	}
	if h.cfg.Gateway != nil {
		if err := h.cfg.Gateway.begin(ctx, s, a.Name); err != nil {
			return "", err
		}
	}
	cmd, err := h.cfg.Backend.Command(h.invocation(a))
	if err != nil {
		return "", err
	}
	spec := h.spec(s, dir)
	if spec.CacheDir, err = h.cache(ctx, s, cacheAgent); err != nil {
		return "", err
	}
	spec.Argv, spec.PassEnv, spec.HomeFiles, spec.Stdin = cmd.Argv, cmd.PassEnv, cmd.HomeFiles, promptFile
	spec.Programs = cmd.Programs
	if zone := h.zone(); zone != time.Local {
		spec.Env["TZ"] = zone.String()
	}
	maps.Copy(spec.Env, cmd.Env)
	for _, name := range cmd.PassEnv {
		if value := h.cfg.Credentials[name]; value != "" && os.Getenv(name) == "" {
			spec.Env[name] = value
		}
	}
	for _, m := range cmd.Mounts {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Host: m.Host, Target: m.Target})
	}
	spec.WallTimeout, spec.IdleTimeout = a.Wall, a.Idle
	if h.cfg.Gateway != nil {
		h.cfg.Gateway.open(s, a.Name, &spec)
	}
	return h.launch(ctx, a.Name, h.treeDir(), spec)
}

// layOutAgent writes what an agent finds when it starts: the work tree's configuration, the
// progress file, its own history and the prompt.
func (h *Host) layOutAgent(
	ctx context.Context, s loop.State, a loop.AgentStart, repo *gitrepo.Repo, wt *gitrepo.Worktree,
) error {
	if err := h.tidy(ctx, repo, s); err != nil {
		return err
	}
	if err := h.pin(ctx, s, a.ProgressPath, repo, wt); err != nil {
		return fmt.Errorf("pin the agent's configuration: %w", err)
	}
	if err := h.writeProgress(ctx, a.ProgressPath, a.Progress); err != nil {
		return err
	}
	history, err := h.history(s, repo)
	if err != nil {
		return err
	}
	if err := wt.InitAgentGit(ctx, history); err != nil {
		return fmt.Errorf("lay out the agent's own .git: %w", err)
	}
	return os.WriteFile(filepath.Join(h.start(a.Name), promptName), []byte(a.Prompt), 0o600)
}

// invocation is what the agent is called with, its way to the model included.
func (h *Host) invocation(a loop.AgentStart) agent.Invocation {
	inv := agent.Invocation{
		Model: a.Model, MaxTurns: a.MaxTurns, DenyTools: a.DenyTools, Mode: a.Mode, Sandbox: h.cfg.Sandbox.About().Name,
	}
	if g := h.cfg.Gateway; g != nil && !g.NoModels {
		inv.BaseURL = cmp.Or(g.BaseURL, fmt.Sprintf("http://127.0.0.1:%d", sandbox.GatewayPort))
		inv.Token = g.Token(a.Name)
	}
	return inv
}

// startNote is what whichever process sees the end of a start has to know of it. It is written
// last: a start that died before is laid out again, one that died after it is not touched any
// more, because its process may be at work.
type startNote struct {
	// Tree is what had landed when an agent began, Progress where its progress file was, and
	// Model what it was to use, "" for its own choice.
	Tree, Progress, Model string
	// SetupKey is what the outcome of set-up commands is known by, "" of other starts.
	SetupKey string
	// Agent or Check is what its transcript tells beside its words, nil where none is kept,
	// or was kept by now.
	Agent *transcript.Start
	Check *transcript.Check
}

func (h *Host) noteFile(start string) string { return filepath.Join(h.start(start), "start.json") }

func (h *Host) startNote(name string) (n startNote, found bool, err error) {
	found, err = fstree.ReadNote(h.noteFile(name), &n)
	return n, found, err
}

// once lays out a start, unless that was completed before.
func (h *Host) once(name string, note startNote, layOut func() error) error {
	if _, found, err := h.startNote(name); found || err != nil {
		return err
	}
	if err := os.MkdirAll(h.start(name), 0o700); err != nil {
		return err
	}
	if err := layOut(); err != nil {
		return err
	}
	return fstree.WriteNote(h.noteFile(name), note)
}

// spec is what every start has in common.
func (h *Host) spec(s loop.State, dir string) sandbox.Spec {
	env := map[string]string{"CI": "true"}
	if h.cfg.Sandbox.About().Name == agent.SandboxLocal {
		// A fresh home hides the build cache that a laptop has. It is shared where
		// nothing is kept apart anyway.
		if sandbox.Isolated(h.cfg.Sandbox) {
			// The run's own cache it is, then.
		} else if own := os.Getenv("GOCACHE"); own != "" {
			env["GOCACHE"] = own
		} else if cache, err := os.UserCacheDir(); err == nil {
			env["GOCACHE"] = filepath.Join(cache, "go-build")
		}
	}
	image := s.Image
	if image == "" {
		image = h.cfg.Image
	}
	return sandbox.Spec{
		Env: env, RunDir: filepath.Join(dir, "run"), Image: image,
		Resources: h.cfg.Resources, OnOwnerDeath: h.cfg.OnOwnerDeath,
	}
}

// launch starts the spec on the tree, or finds what was started.
func (h *Host) launch(ctx context.Context, name, tree string, spec sandbox.Spec) (loop.Handle, error) {
	if err := h.cfg.Sandbox.Prepare(ctx, tree); err != nil {
		return "", fmt.Errorf("prepare the work tree: %w", err)
	}
	spec.Workspace = tree
	handle, err := h.cfg.Sandbox.Start(ctx, name, spec)
	if errors.Is(err, sandbox.ErrNoImage) && spec.Image == h.cfg.Image && h.cfg.OnOwnerDeath != sandbox.KillWithOwner {
		// Nobody in the repository has chosen it, so that only the server's operator can help.
		return "", &loop.Delay{Why: "the image of this server is not there", For: imagePause, Err: err}
	}
	if err != nil {
		return "", err
	}
	return encodeHandle(handle)
}

func encodeHandle(h sandbox.Handle) (loop.Handle, error) {
	b, err := json.Marshal(h)
	if err != nil {
		return "", fmt.Errorf("encode the handle of %s: %w", h.Name, err)
	}
	return loop.Handle(b), nil
}

func decodeHandle(lh loop.Handle) (sandbox.Handle, error) {
	var h sandbox.Handle
	if err := json.Unmarshal([]byte(lh), &h); err != nil {
		return h, fmt.Errorf("decode the handle of a start: %w", err)
	}
	return h, nil
}

// room is a *loop.Delay where this machine lacks what a start needs.
func (h *Host) room() error {
	if h.cfg.Lacks == nil {
		return nil
	}
	if why := h.cfg.Lacks(); why != "" {
		return &loop.Delay{Why: why}
	}
	return nil
}

// ObserveAgent implements loop.Runner.
func (h *Host) ObserveAgent(ctx context.Context, lh loop.Handle) (loop.AgentStatus, error) {
	handle, status, err := h.observe(ctx, lh, h.treeDir())
	if errors.Is(err, loop.ErrGone) || errors.Is(err, loop.ErrLost) {
		var lost loop.AgentStatus
		err = errors.Join(err, h.cfg.Gateway.end(ctx, handle.Name, &lost))
		lost.Detail = string(status.Reason)
		h.keepTranscript(ctx, handle, status, lost)
		return lost, errors.Join(err, h.dropOutput(handle, status))
	}
	if err != nil {
		return loop.AgentStatus{}, err
	}
	if !status.Ended() {
		if err := h.follow(ctx, lh, handle); err != nil {
			return loop.AgentStatus{}, err
		}
		if err := h.stopInVain(ctx, handle); err != nil {
			return loop.AgentStatus{}, err
		}
		return loop.AgentStatus{Running: true}, nil
	}
	if status.Reason == sandbox.ReasonDiskLimit {
		if err := h.emptied(ctx, handle.Name); err != nil {
			return loop.AgentStatus{}, err
		}
	}
	h.unwatch(lh)
	var did run.Activity
	parser := h.cfg.Backend.NewParser(func(a agent.Activity) {
		if a.Kind == agent.ActivityTool {
			did.Use(a.Tool)
		}
	})
	if _, err := h.logs(ctx, handle, 0, parser); err != nil {
		return loop.AgentStatus{}, err
	}
	status.Stderr = h.cfg.Mask.Mask(status.Stderr) // before it is cut
	s := agentStatus(parser.Close(), status, h.zone())
	s.Activity = did
	// Its words end up in progress.md, and so in the next commit.
	s.Final, s.Detail, s.Limit = h.cfg.Mask.Mask(s.Final), h.cfg.Mask.Mask(s.Detail), h.cfg.Mask.Mask(s.Limit)
	if err := h.cfg.Gateway.end(ctx, handle.Name, &s); err != nil {
		return loop.AgentStatus{}, err
	}
	if h.cfg.Gateway == nil || h.cfg.Gateway.Unmetered {
		if err := h.price(handle.Name, &s); err != nil {
			return loop.AgentStatus{}, err
		}
	}
	h.keepTranscript(ctx, handle, status, s)
	return s, nil
}

// price says what an agent cost that tells only what it used.
func (h *Host) price(name string, s *loop.AgentStatus) error {
	if s.Model == "" {
		n, _, err := h.startNote(name)
		if err != nil {
			return err
		}
		s.Model = n.Model
	}
	if price, ok := h.cfg.Prices.Of(s.Model); ok && s.Usage.CostUSD == 0 {
		s.Usage.CostUSD = price.Cost(s.Usage)
	}
	return nil
}

// emptied takes away what an agent filled the disk with, before anybody reads
// the tree: the tree is again what had landed, but for the agent's notes.
func (h *Host) emptied(ctx context.Context, name string) error {
	n, found, err := h.startNote(name)
	if err == nil && !found {
		err = fmt.Errorf("nobody noted what %s began with", name)
	}
	if err != nil {
		return err
	}
	if err := h.dropCaches(cacheAgent); err != nil {
		return err
	}
	root, err := h.root()
	if err != nil {
		return err
	}
	doc, readErr := progress.Read(root, n.Progress) // where it cannot be read it is put back later
	if err := errors.Join(root.Close(), h.Reset(ctx, n.Tree)); err != nil {
		return err
	}
	if readErr != nil {
		return nil
	}
	return h.writeProgress(ctx, n.Progress, doc)
}

// observe looks at a start. Where it has ended, everything it wrote is the
// host's to read from then on.
func (h *Host) observe(ctx context.Context, lh loop.Handle, tree string) (sandbox.Handle, sandbox.Status, error) {
	handle, err := decodeHandle(lh)
	if err != nil {
		return handle, sandbox.Status{}, err
	}
	status, err := h.cfg.Sandbox.Inspect(ctx, handle)
	if err != nil {
		return handle, status, err
	}
	if status.State == sandbox.Missing {
		return handle, status, loop.ErrGone
	}
	if status.State != sandbox.Exited {
		return handle, status, nil
	}
	if err := fstree.OpenUp(ctx, tree); err != nil {
		return handle, status, fmt.Errorf("collect the work tree: %w", err)
	}
	switch status.Reason {
	case sandbox.ReasonOwnerDied:
		// It ended only because we did.
		if err := h.cfg.Sandbox.Remove(ctx, handle); err != nil {
			return handle, status, err
		}
		return handle, status, loop.ErrGone
	case sandbox.ReasonLost:
		if status.OOMKilled {
			return handle, status, nil // that is an end like another
		}
		if err := h.cfg.Sandbox.Remove(ctx, handle); err != nil {
			return handle, status, err
		}
		return handle, status, loop.ErrLost
	case sandbox.ReasonExited, sandbox.ReasonWallTimeout, sandbox.ReasonIdleTimeout, sandbox.ReasonStopped,
		sandbox.ReasonStartFailed, sandbox.ReasonDiskLimit:
	}
	return handle, status, nil
}

// logs copies stdout from an offset on and says how much that was.
func (h *Host) logs(ctx context.Context, handle sandbox.Handle, offset int64, w io.Writer) (n int64, err error) {
	r, err := handle.Stdout(offset)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if n, err = io.Copy(heard{ctx, w}, r); err != nil {
		return n, fmt.Errorf("read the output of %s: %w", handle.Name, err)
	}
	return n, nil
}

// heard is a writer that takes nothing more once its context is cancelled: what is
// written costs time to read.
type heard struct {
	ctx context.Context //nolint:containedctx // io.Copy hands none on
	w   io.Writer
}

func (h heard) Write(p []byte) (int, error) {
	if h.ctx.Err() != nil {
		return 0, context.Cause(h.ctx)
	}
	return h.w.Write(p)
}

// zone is that of the clock which an agent sees: an hour that its program names without one
// is read there.
func (h *Host) zone() *time.Location {
	if h.cfg.Sandbox.About().Name == agent.SandboxLocal {
		return time.Local //nolint:gosmopolitan // it runs on this very machine
	}
	return time.UTC
}

// took is how long a process ran, 0 where it never began.
func took(status sandbox.Status) time.Duration {
	if status.StartedAt.IsZero() || status.FinishedAt.IsZero() {
		return 0
	}
	return status.FinishedAt.Sub(status.StartedAt)
}

// agentStatus puts what the stream said and how the process ended into the
// terms of the loop. The zone is that of the agent's clock.
func agentStatus(r agent.Result, status sandbox.Status, zone *time.Location) loop.AgentStatus {
	s := loop.AgentStatus{Started: status.FinishedAt.Add(-took(status)), Finished: status.FinishedAt}
	reason := ""
	switch status.Reason {
	case sandbox.ReasonWallTimeout, sandbox.ReasonIdleTimeout, sandbox.ReasonStopped, sandbox.ReasonStartFailed,
		sandbox.ReasonDiskLimit:
		reason = string(status.Reason)
	case sandbox.ReasonExited, sandbox.ReasonLost, sandbox.ReasonOwnerDied:
	}
	r = r.WithExit(max(status.ExitCode, 0), status.Signal, reason, status.Stderr, status.FinishedAt.In(zone))
	s.Final, s.Detail, s.Usage, s.Model, s.RetryAt = r.FinalText, r.Error, r.Usage, r.Model, r.RetryAt
	if r.Truncated {
		s.Detail = strings.TrimPrefix(s.Detail+"; a line of its output was too long to read and was left out", "; ")
	}
	length := took(status).Round(time.Second)
	switch {
	case status.Reason == sandbox.ReasonStartFailed:
		s.Outcome, s.Detail = loop.AgentBroken, "the agent could not be started: "+status.Detail
	case status.Crowded():
		s.Outcome, s.Detail = loop.AgentCrowded, status.Detail
	case status.Reason == sandbox.ReasonDiskLimit:
		// Whatever it says of itself: what it wrote is gone.
		s.Outcome, s.Detail = loop.AgentGaveUp, "it was stopped and its output discarded, because "+status.Detail
	case r.Outcome == agent.OutcomeCompleted:
		s.Outcome = loop.AgentCompleted
	case r.Outcome == agent.OutcomeRefused && status.OOMKilled:
		s.Outcome, s.Detail = loop.AgentGaveUp, "it ran out of memory"
	case r.Outcome.Waits():
		s.Outcome, s.Limit = loop.AgentRateLimited, waitsFor(r.Outcome, r.Error)
	case r.Outcome.DoFirst() != "":
		s.Outcome, s.DoFirst, s.Lasts = loop.AgentBroken, r.Outcome.DoFirst(), true
	case status.Reason == sandbox.ReasonWallTimeout:
		s.Outcome, s.Detail = loop.AgentTimedOut, fmt.Sprintf("it took too long and was stopped after %s", length)
	case status.Reason == sandbox.ReasonIdleTimeout:
		s.Outcome, s.Detail = loop.AgentTimedOut, fmt.Sprintf("it printed nothing and was stopped after %s", length)
	case status.OOMKilled:
		s.Outcome, s.Detail = loop.AgentGaveUp, "it ran out of memory"
	case r.Outcome == agent.OutcomeCrashed:
		s.Outcome = loop.AgentBroken
	default: // an error of its own, or no result at all
		s.Outcome = loop.AgentGaveUp
	}
	return s
}

// waitsFor says for what a run waits, "" for a limit.
func waitsFor(why agent.Outcome, said string) string {
	switch why { //nolint:exhaustive // the others are no waits
	case agent.OutcomeUnavailable:
		return "The provider fails: " + said
	case agent.OutcomeRefused:
		return "The agent does not get to work: " + said
	default:
		return ""
	}
}

// Stop implements loop.Runner.
func (h *Host) Stop(ctx context.Context, lh loop.Handle, reason string) error {
	handle, err := decodeHandle(lh)
	if err != nil {
		return err
	}
	return h.cfg.Sandbox.Stop(ctx, handle, reason)
}

// Abandon implements loop.Runner.
func (h *Host) Abandon(ctx context.Context, name string) error {
	handle := sandbox.Handle{Name: name, RunDir: filepath.Join(h.start(name), "run")}
	var unheard loop.AgentStatus
	if err := h.cfg.Gateway.end(ctx, name, &unheard); err != nil {
		return err
	}
	if _, err := os.Lstat(handle.RunDir); errors.Is(err, fs.ErrNotExist) {
		return nil // it did not get that far
	}
	if err := h.cfg.Sandbox.Stop(ctx, handle, "abandoned"); err != nil {
		return err
	}
	h.keepTranscript(ctx, handle, sandbox.Status{ExitCode: -1}, loop.AgentStatus{Detail: "abandoned"})
	return h.discard(ctx, handle)
}

// Remove implements loop.Runner.
func (h *Host) Remove(ctx context.Context, lh loop.Handle) error {
	handle, err := decodeHandle(lh)
	if err != nil {
		return err
	}
	h.unwatch(lh)
	// Only one that was stopped is not kept yet.
	h.keepTranscript(ctx, handle, sandbox.Status{ExitCode: -1}, loop.AgentStatus{Detail: "stopped"})
	if g := h.cfg.Gateway; g != nil {
		if err := g.Meter.End(ctx, handle.Name); err != nil {
			return err
		}
		g.Watch.Forget(handle.Name)
	}
	return h.discard(ctx, handle)
}

// discard frees all that a start holds. What it said has been taken by then: its output
// is up to [sandbox.OutputLimit], and a run has many starts.
func (h *Host) discard(ctx context.Context, handle sandbox.Handle) error {
	if err := h.cfg.Sandbox.Remove(ctx, handle); err != nil {
		return err
	}
	return h.dropOutput(handle, sandbox.Status{State: sandbox.Exited})
}

// dropOutput takes away the run directory of a start that has ended. It may be repeated.
func (h *Host) dropOutput(handle sandbox.Handle, status sandbox.Status) error {
	if status.State != sandbox.Exited {
		return nil // it was never there
	}
	if err := fstree.RemoveAll(filepath.Join(h.start(handle.Name), "run")); err != nil {
		return fmt.Errorf("remove the output of %s: %w", handle.Name, err)
	}
	return nil
}
