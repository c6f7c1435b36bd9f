// Package rundir is the layout of a start's run directory, and what can be
// told from it alone. The sandboxes that run on this machine share it.
//
// Invariants:
//   - The directory is the host's (mode 0700). A command that may write into a
//     part of it does so in a subdirectory that is never read back.
//   - Every file is written so that a reader sees nothing or all of it.
package rundir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/org/ralph-action/internal/fstree"
	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/shim"
)

const (
	stdoutFile = "stdout"
	stderrFile = "stderr"
	recordFile = "exit.jsonl"
	startFile  = "start.json"
	stopFile   = "stop.json"
	lockFile   = "lock"
	boxPrefix  = "box-"
)

// stderrShown is how much of stderr a Status shows.
const stderrShown = 4 << 10

// Dir is the run directory of one start.
type Dir string

// Start is what the host keeps about a start.
type Start struct {
	Name string `json:"name"`
	// Token is found in the environment of every process of the start.
	Token string        `json:"token,omitempty"`
	Grace time.Duration `json:"grace"`
}

// Record is the shim's record of events.
func (d Dir) Record() string { return d.Path(recordFile) }

// Path is the path of something else in the directory.
func (d Dir) Path(name string) string { return filepath.Join(string(d), name) }

// Lock keeps other processes from starting or removing the same start until
// unlock is called, or this process dies.
func (d Dir) Lock(ctx context.Context) (unlock func(), err error) {
	f, err := proc.LockFile(ctx, d.Path(lockFile))
	if err != nil {
		return nil, fmt.Errorf("lock run directory: %w", err)
	}
	return func() { _ = f.Close() }, nil
}

// Enter makes the directory, waits for the turn of this process among those that start the
// same name, and notes the start, or gives what was noted of it earlier. A grace of nothing is
// the default one. Another name in the same directory is sandbox.ErrNameTaken. What is found
// half done until unlock is called was left by a dead process.
func (d Dir) Enter(ctx context.Context, s Start) (noted Start, unlock func(), err error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return Start{}, nil, fmt.Errorf("make run directory: %w", err)
	}
	if unlock, err = d.Lock(ctx); err != nil {
		return Start{}, nil, err
	}
	s.Grace = cmp.Or(max(s.Grace, 0), sandbox.DefaultGrace)
	earlier, found, err := d.Started()
	switch {
	case err != nil:
	case !found:
		err = fstree.WriteNote(d.Path(startFile), s)
	case earlier.Name != s.Name:
		err = fmt.Errorf("%w: run directory belongs to %q", sandbox.ErrNameTaken, earlier.Name)
	default:
		s = earlier
	}
	if err != nil {
		unlock()
		return Start{}, nil, err
	}
	return s, unlock, nil
}

// Find gives the directory of a handle and what was noted there, nil where there is no such
// start.
func Find(h sandbox.Handle) (Dir, *Start, error) {
	d := Dir(h.RunDir)
	noted, found, err := d.Started()
	if err != nil || !found || noted.Name != h.Name {
		return d, nil, err
	}
	return d, &noted, nil
}

// Started gives what Enter noted, if it did.
func (d Dir) Started() (Start, bool, error) {
	var s Start
	found, err := fstree.ReadNote(d.Path(startFile), &s)
	return s, found, err
}

// History is the shim's record.
func (d Dir) History() (shim.History, error) { return shim.ReadHistory(d.Record()) }

type stopNote struct {
	Reason string `json:"reason"`
}

// NoteStop keeps why the start was asked to stop. The first reason stays.
func (d Dir) NoteStop(reason string) error {
	var n stopNote
	if found, err := fstree.ReadNote(d.Path(stopFile), &n); found || err != nil {
		return err
	}
	return fstree.WriteNote(d.Path(stopFile), stopNote{Reason: reason})
}

// Status is what the directory tells of a start: the times, the output, and
// from the shim's record how it ended. It knows nothing of whether the shim
// lives: without a recorded end the state is Running where the shim was up and
// Created where it was not.
func (d Dir) Status(h shim.History) (sandbox.Status, error) {
	st := sandbox.Status{
		State:     sandbox.Created,
		StartedAt: h.StartedAt, FinishedAt: h.EndedAt,
	}
	if h.ShimAt.IsZero() {
		return st, nil
	}
	st.State = sandbox.Running
	var err error
	if st.Stderr, err = tail(d.Path(stderrFile), stderrShown); err != nil {
		return st, err
	}
	if h.Exit == nil {
		return st, nil
	}

	st.State = sandbox.Exited
	st.ExitCode, st.Signal = h.Exit.Code, h.Exit.Signal
	st.Reason, st.Detail = h.Exit.Reason, h.Exit.Detail
	st.Truncated, st.OOMKilled = h.Exit.Truncated, h.Exit.OOMKilled
	if st.Reason == sandbox.ReasonStopped {
		var n stopNote
		found, err := fstree.ReadNote(d.Path(stopFile), &n)
		if err != nil {
			return st, err
		}
		if found {
			st.Detail = n.Reason
		} else {
			// The command, or somebody at the machine, signalled the shim.
			st.Reason = sandbox.ReasonExited
		}
	}
	return st, nil
}

// Lost is the status of a start whose shim is gone without recording the end.
func (d Dir) Lost(st sandbox.Status) (sandbox.Status, error) {
	st.State, st.Reason, st.ExitCode, st.Signal = sandbox.Exited, sandbox.ReasonLost, -1, ""
	var n stopNote
	found, err := fstree.ReadNote(d.Path(stopFile), &n)
	if err != nil {
		return st, err
	}
	if found {
		st.Reason, st.Detail = sandbox.ReasonStopped, n.Reason
	}
	return st, nil
}

// Forget deletes the host's notes, the boxes and the given subdirectories; the transcript
// stays.
func (d Dir) Forget(subdirs ...string) error {
	var errs []error
	boxes, _ := filepath.Glob(d.Path(boxPrefix + "*")) // the pattern is well-formed
	for _, box := range boxes {
		errs = append(errs, fstree.RemoveAll(box))
	}
	for _, name := range subdirs {
		errs = append(errs, fstree.RemoveAll(d.Path(name)))
	}
	// The start's note goes last: as long as it is there, Remove is repeated.
	for _, name := range []string{recordFile, stopFile, startFile} {
		if err := os.Remove(d.Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clear run directory: %w", err)
	}
	return nil
}

func tail(path string, n int64) (string, error) {
	f, err := os.Open(path) // #nosec G304 -- a path of ours
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read transcript: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("read transcript: %w", err)
	}
	data, err := io.ReadAll(io.NewSectionReader(f, max(info.Size()-n, 0), n))
	if err != nil {
		return "", fmt.Errorf("read transcript: %w", err)
	}
	return string(data), nil
}

// Owned holds what keeps the starts alive that die with this process: our end of each shim's
// standard input.
type Owned struct {
	mu   sync.Mutex
	ends map[Dir]io.Closer
}

// Keep holds the end of a start in the place of an earlier one.
func (o *Owned) Keep(d Dir, end io.Closer) {
	o.Release(d)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ends == nil {
		o.ends = map[Dir]io.Closer{}
	}
	o.ends[d] = end
}

// Release lets it go, if there is one.
func (o *Owned) Release(d Dir) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if end := o.ends[d]; end != nil {
		_ = end.Close()
		delete(o.ends, d)
	}
}
