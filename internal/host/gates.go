package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/sandbox"
)

// What is kept of a check's output to find the telling lines in.
const gateOutput = 2 << 20

// gateScript runs one command line ($1) with build caches. The environment wins. What
// the tree depends on is prepared first ($2), unless the caches hold what that made
// ($4) for the same key ($3). Where it cannot be prepared the check runs all the same,
// since the image may hold what is needed; that is tried once in a run ($5) on the
// default branch.
const gateScript = `cache="$RALPH_CACHE"
export XDG_CACHE_HOME="${XDG_CACHE_HOME:-$cache}"
if [ -n "$2" ] && ! [ -e "$4" ]; then
	kept="$cache/prepared/$3"
	mkdir -p "$cache/prepared" "$(dirname "$4")"
	if [ -d "$kept" ]; then
		cp -a "$kept" "$4"
	elif [ -e "$kept.$5.failed" ]; then
		cat "$kept.$5.failed"
	elif sh -c "$2" >"$kept.log" 2>&1 && [ -d "$4" ]; then
		rm -rf "$kept.new" && cp -a "$4" "$kept.new" && mv "$kept.new" "$kept"
	else
		{ echo "Installing the dependencies failed: $2"; tail -n 20 "$kept.log"; } >"$kept.$5.failed"
		cat "$kept.$5.failed"
	fi
fi
if [ "$4" = .venv ] && [ -d .venv/bin ]; then
	export PATH="$PWD/.venv/bin:$PATH"
fi
exec sh -c "$1" 2>&1`

// setupScript runs the set-up commands, one after the other, up to the first
// that fails.
const setupScript = `export XDG_CACHE_HOME="${XDG_CACHE_HOME:-$RALPH_CACHE}"
exec sh -e -c "$1" 2>&1`

// StartGate implements loop.Runner.
func (h *Host) StartGate(ctx context.Context, s loop.State, g loop.GateStart) (loop.Handle, error) {
	if err := h.room(); err != nil {
		return "", err
	}
	repo, err := h.Repo(ctx)
	if err != nil {
		return "", err
	}
	dir := h.start(g.Name)
	level := map[loop.Trust]string{
		loop.TrustRun: cacheCheck, loop.TrustBase: cacheBase, loop.TrustDefault: cacheSetup,
	}[g.Trust]
	note := startNote{Check: h.describeCheck(s, g)}
	if g.Trust == loop.TrustDefault {
		note.SetupKey = s.SetupKey
	}
	err = h.once(g.Name, note, func() error {
		if err := h.clearCheckDir(); err != nil {
			return err
		}
		if level != cacheBase {
			// Nothing that an earlier check left, or set-up commands that broke off, is for this one.
			if err := h.dropCaches(level); err != nil {
				return err
			}
		}
		// What an earlier check left behind must not help this one: it goes.
		_, err := repo.Export(ctx, filepath.Join(h.checkDir(), "tree"), gitrepo.OID(g.Tree), h.checkIndex())
		return err
	})
	if err != nil {
		return "", fmt.Errorf("prepare %s: %w", g.Name, err)
	}
	spec := h.spec(s, dir)
	key := ""
	if prepare := g.Gate.Prepare; prepare.Command != "" {
		key, err = keyOf(ctx, repo, gitrepo.OID(g.Tree), strings.Fields(prepare.Inputs), prepare.Command, s.Image, h.cfg.Image)
		if err != nil {
			return "", err
		}
	}
	spec.Argv = []string{"sh", "-c", gateScript, "check", g.Gate.Command, g.Gate.Prepare.Command, key, g.Gate.Prepare.Keep,
		string(s.Run)}
	if g.Trust == loop.TrustDefault {
		spec.Argv = []string{"sh", "-c", setupScript, "set-up", g.Gate.Command}
	}
	if spec.CacheDir, err = h.cache(ctx, s, level); err != nil {
		return "", err
	}
	spec.Dir = "tree"
	h.passGo(&spec)
	spec.WallTimeout = g.Gate.Timeout
	// Without a host to reach there is nothing for a check behind the gateway.
	if gw := h.cfg.Gateway; len(gw.hosts(s)) > 0 {
		if err := gw.beginCheck(ctx, s, g.Name); err != nil {
			return "", err
		}
		gw.open(s, g.Name, &spec)
	}
	return h.launch(ctx, g.Name, h.checkDir(), spec)
}

// passGo hands on how Go gets modules on this machine, but not who logs in for them:
// checks run what an agent wrote.
func (h *Host) passGo(spec *sandbox.Spec) {
	names := []string{"GOPROXY", "GOSUMDB", "GONOSUMDB", "GOFLAGS", "GOTOOLCHAIN"}
	if !sandbox.Isolated(h.cfg.Sandbox) { // elsewhere it is not there
		names = append(names, "GOMODCACHE")
	}
	for _, name := range names {
		value := os.Getenv(name)
		clean := redact.WithoutLogins(value)
		switch {
		case clean == value:
			spec.PassEnv = append(spec.PassEnv, name)
		case h.cfg.Sandbox.About().Name == agent.SandboxLocal: // the others let no variable in
			spec.Env[name] = clean
		}
	}
}

// clearCheckDir takes away what the code of an earlier check left beside the
// tree, where tools look for configuration.
func (h *Host) clearCheckDir() error {
	if err := os.MkdirAll(h.checkDir(), 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(h.checkDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() == "tree" {
			continue
		}
		if err := fstree.RemoveAll(filepath.Join(h.checkDir(), e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// ObserveGate implements loop.Runner.
func (h *Host) ObserveGate(ctx context.Context, lh loop.Handle) (loop.GateStatus, error) {
	handle, status, err := h.observe(ctx, lh, h.checkDir())
	if errors.Is(err, loop.ErrGone) || errors.Is(err, loop.ErrLost) {
		_, ended := h.cfg.Gateway.endCheck(ctx, handle.Name)
		return loop.GateStatus{}, errors.Join(err, ended, h.dropOutput(handle, status))
	}
	if err != nil {
		return loop.GateStatus{}, err
	}
	if !status.Ended() {
		return loop.GateStatus{Running: true}, nil
	}
	if status.Crowded() {
		// It says nothing of the tree; started again, it waits for room.
		_, err := h.cfg.Gateway.endCheck(ctx, handle.Name)
		if err = errors.Join(err, h.dropCaches(cacheCheck, cacheBase), h.cfg.Sandbox.Remove(ctx, handle),
			h.dropOutput(handle, status)); err != nil {
			return loop.GateStatus{}, err
		}
		return loop.GateStatus{}, loop.ErrGone
	}
	hosts, err := h.cfg.Gateway.endCheck(ctx, handle.Name)
	if err != nil {
		return loop.GateStatus{}, err
	}
	r := gate.Result{
		Passed:   status.Reason == sandbox.ReasonExited && status.ExitCode == 0 && status.Signal == "",
		ExitCode: status.ExitCode, Reason: string(status.Reason),
		Duration: took(status),
	}
	switch {
	case status.Reason == sandbox.ReasonStartFailed:
		r.Reason = "it could not be started: " + status.Detail
	case status.Reason == sandbox.ReasonDiskLimit:
		r.Reason = "it was stopped because " + status.Detail
	case status.OOMKilled && !r.Passed:
		r.Reason = "it ran out of memory"
	case status.Signal != "" && status.Reason == sandbox.ReasonExited:
		r.Reason = "it was ended by " + status.Signal
	}
	out := proc.Tail{Limit: gateOutput}
	facts := gate.NewReader()
	if _, err := h.logs(ctx, handle, 0, io.MultiWriter(&out, facts)); err != nil {
		return loop.GateStatus{}, err
	}
	if status.Reason == sandbox.ReasonDiskLimit {
		if err := h.dropCaches(cacheCheck, cacheBase); err != nil {
			return loop.GateStatus{}, err
		}
	}
	if note, _, err := h.startNote(handle.Name); err != nil {
		return loop.GateStatus{}, err
	} else if r.Passed {
		if err := h.keep(ctx, cacheSetup, note.SetupKey); err != nil {
			return loop.GateStatus{}, err
		}
	}
	// What it said ends up in progress.md, too.
	r.Output, r.Facts = gate.Excerpt(h.cfg.Mask.Mask(string(out.Bytes()))), facts.Facts()
	if ctx.Err() != nil {
		return loop.GateStatus{}, context.Cause(ctx)
	}
	r.Facts.Cut = r.Facts.Cut || status.Truncated
	h.keepCheck(ctx, handle, status, r)
	return loop.GateStatus{Result: r, Hosts: hosts}, nil
}
