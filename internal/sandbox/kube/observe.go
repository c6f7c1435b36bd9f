package kube

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/internal/rundir"
	"github.com/org/ralph-action/internal/sandbox/kube/parcel"
	"github.com/org/ralph-action/internal/sandbox/kube/podshim"
	"github.com/org/ralph-action/internal/sandbox/shim"
)

// Inspect implements sandbox.Sandbox.
func (s *Sandbox) Inspect(ctx context.Context, h sandbox.Handle) (sandbox.Status, error) {
	st, err := s.inspect(ctx, h)
	if err != nil {
		return sandbox.Status{}, fmt.Errorf("inspect %s: %w", h.Name, explain(err))
	}
	return st, nil
}

func (s *Sandbox) inspect(ctx context.Context, h sandbox.Handle) (sandbox.Status, error) {
	missing := sandbox.Status{State: sandbox.Missing}
	d, found, err := find(h)
	if err != nil || !found {
		return missing, err
	}
	n, err := readNote(d)
	if err != nil {
		return missing, err
	}
	if !n.Home && n.Lost == nil {
		if n.UID == "" {
			return sandbox.Status{State: sandbox.Created}, nil
		}
		here, err := s.look(ctx, d, h, &n)
		if err != nil {
			return missing, err
		}
		if !here {
			return missing, nil
		}
	}
	return status(d, n)
}

// status is what is known here.
func status(d rundir.Dir, n noted) (sandbox.Status, error) {
	hist, err := d.History()
	if err != nil {
		return sandbox.Status{}, err
	}
	st, err := d.Status(hist)
	if err != nil {
		return st, err
	}
	if n.Lost != nil {
		st.OOMKilled, st.Detail, st.FinishedAt = n.Lost.OOM, n.Lost.Detail, n.Lost.At
		return d.Lost(st)
	}
	if n.Committed && !n.Home {
		// Recorded as ended it may be, but what it made is not here yet.
		st.State = sandbox.Running
		st.Reason, st.ExitCode, st.Signal, st.Detail, st.FinishedAt = "", 0, "", "", time.Time{}
	}
	return st, nil
}

// look brings home what there is, and notes how the pod ended where it has. It says
// whether there is such a start.
func (s *Sandbox) look(ctx context.Context, d rundir.Dir, h sandbox.Handle, n *noted) (bool, error) {
	unlock, err := notes(d).Lock(ctx)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // removed meanwhile
	}
	if err != nil {
		return false, err
	}
	defer unlock()
	// Another process may have done it meanwhile.
	if *n, err = readNote(d); err != nil || n.Home || n.Lost != nil {
		return n.Trees != nil, err
	}
	if !n.Committed {
		return s.lookAtPod(ctx, d, h, n, nil)
	}
	l := s.link(d, podName(h.Name))
	l.follow(*n) //nolint:contextcheck // it outlives the call
	ended, err := l.fetch(ctx)
	if errors.Is(err, errConflict) {
		return true, nil // asked to start, and not begun yet
	}
	if err == nil && ended {
		how, takenErr := s.taken(ctx, d, h, n)
		if takenErr != nil || how != nil {
			return true, errors.Join(takenErr, s.loseIf(d, n, how))
		}
		err = l.bringHome(ctx, n)
	}
	if err == nil || ctx.Err() != nil || !errors.Is(err, sandbox.ErrUnavailable) {
		return true, err
	}
	return s.lookAtPod(ctx, d, h, n, err)
}

// lookAtPod asks the cluster for a pod that does not answer, or has no command yet.
func (s *Sandbox) lookAtPod(ctx context.Context, d rundir.Dir, h sandbox.Handle, n *noted, silence error) (bool, error) {
	pod, err := s.core.Pods(s.opts.Namespace).Get(ctx, podName(h.Name), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && string(pod.UID) != n.UID:
		hist, err := d.History()
		if err != nil || hist.Exit == nil {
			return false, err
		}
		return true, s.lose(d, n, lost{Detail: "somebody removed the pod before its work came back", At: time.Now()})
	case err != nil:
		return false, err
	}
	if detail, oom, ended := ending(pod); ended {
		return true, s.lose(d, n, lost{Detail: detail, OOM: oom, At: finished(pod)})
	}
	return true, silence
}

// taken says how a pod ended whose shim was told to end by the cluster, and neither by Stop
// nor by the command.
func (s *Sandbox) taken(ctx context.Context, d rundir.Dir, h sandbox.Handle, n *noted) (*lost, error) {
	hist, err := d.History()
	if err != nil || hist.Exit == nil || hist.Exit.Reason != shim.ReasonSignalled {
		return nil, err
	}
	if st, err := d.Status(hist); err != nil || st.Reason == sandbox.ReasonStopped {
		return nil, err
	}
	pod, err := s.core.Pods(s.opts.Namespace).Get(ctx, podName(h.Name), metav1.GetOptions{})
	how := &lost{Detail: "the cluster took the pod away, or somebody did", At: hist.EndedAt}
	switch {
	case apierrors.IsNotFound(err):
		return how, nil
	case err != nil:
		return nil, err
	case string(pod.UID) != n.UID || pod.DeletionTimestamp != nil:
		return how, nil
	}
	return nil, nil //nolint:nilnil // nobody has
}

func (s *Sandbox) loseIf(d rundir.Dir, n *noted, how *lost) error {
	if how == nil {
		return nil
	}
	return s.lose(d, n, *how)
}

func finished(pod *v1.Pod) time.Time {
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil {
			return t.FinishedAt.Time
		}
	}
	return time.Now()
}

func (s *Sandbox) lose(d rundir.Dir, n *noted, how lost) error {
	n.Lost = &how
	s.unlink(d)
	return n.write(d)
}

// fetch brings the record and what is new of the transcript, and says whether the command
// has ended.
func (l *link) fetch(ctx context.Context) (ended bool, err error) {
	stderr, err := os.ReadFile(l.d.Stderr())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	stdout, err := os.OpenFile(l.d.Stdout(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, stdout.Close()) }()
	info, err := stdout.Stat()
	if err != nil {
		return false, err
	}
	query := url.Values{
		"stdout": {strconv.FormatInt(info.Size(), 10)},
		"stderr": {strconv.FormatUint(uint64(crc32.ChecksumIEEE(stderr)), 10)},
	}
	response, err := l.do(ctx, http.MethodGet, podshim.PathOutput, query, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }()
	body := bufio.NewReader(response.Body)
	line, err := body.ReadBytes('\n')
	if err != nil {
		return false, fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	var out podshim.Output
	if err := json.Unmarshal(line, &out); err != nil {
		return false, err
	}
	// What comes before a way breaks counts: the next one goes on after it.
	if _, err := io.CopyN(stdout, body, out.Stdout); err != nil {
		return false, fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	if out.Stderr != nil {
		if err := os.WriteFile(l.d.Stderr(), out.Stderr, 0o600); err != nil {
			return false, err
		}
	}
	if err := os.WriteFile(l.d.Record(), out.Record, 0o600); err != nil {
		return false, err
	}
	hist, err := l.d.History()
	return hist.Exit != nil, err
}

// bringHome brings the trees of a command that has ended.
func (l *link) bringHome(ctx context.Context, n *noted) error {
	for dir, to := range n.Trees {
		if err := again(ctx, func() error { return l.takeTree(ctx, dir, to) }); err != nil {
			return err
		}
	}
	n.Home = true
	if err := n.write(l.d); err != nil {
		return err
	}
	l.s.unlink(l.d)
	return nil
}

func (l *link) takeTree(ctx context.Context, from, to string) (err error) {
	// It has recorded its end, and is about to say so.
	if err := l.call(ctx, http.MethodGet, podshim.PathEnd, nil, nil, nil); err != nil {
		return err
	}
	response, err := l.do(ctx, http.MethodGet, podshim.PathTree, url.Values{"dir": {from}}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	body := &reader{r: response.Body}
	if err := parcel.Unpack(ctx, to, body); err != nil {
		if body.err != nil || errors.Is(err, parcel.ErrShort) {
			return fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
		}
		return err
	}
	return nil
}

// reader tells an error of the way from one of this machine.
type reader struct {
	r   io.Reader
	err error
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// Wait implements sandbox.Sandbox.
func (s *Sandbox) Wait(ctx context.Context, h sandbox.Handle) (sandbox.Status, error) {
	for {
		st, err := s.inspect(ctx, h)
		if err == nil && st.State != sandbox.Running {
			return st, nil
		}
		if err == nil {
			l := s.link(rundir.Dir(h.RunDir), podName(h.Name))
			// A broken way, or a start that is about to begin: look again.
			if broken := l.call(ctx, http.MethodGet, podshim.PathEnd, nil, nil, nil); broken != nil {
				select {
				case <-ctx.Done():
					err = context.Cause(ctx)
				case <-time.After(retryPause):
				}
			}
		}
		if err != nil {
			return sandbox.Status{}, fmt.Errorf("wait for %s: %w", h.Name, explain(err))
		}
	}
}

// Logs implements sandbox.Sandbox.
func (s *Sandbox) Logs(ctx context.Context, h sandbox.Handle, offset int64) (io.ReadCloser, error) {
	d, found, err := find(h)
	if err == nil && found {
		_, err = s.inspect(ctx, h)
	}
	if err != nil {
		return nil, fmt.Errorf("logs of %s: %w", h.Name, explain(err))
	}
	return d.Logs(offset)
}

// Stop implements sandbox.Sandbox.
func (s *Sandbox) Stop(ctx context.Context, h sandbox.Handle, reason string) error {
	if err := s.stop(ctx, h, reason); err != nil {
		return fmt.Errorf("stop %s: %w", h.Name, explain(err))
	}
	return nil
}

func (s *Sandbox) stop(ctx context.Context, h sandbox.Handle, reason string) error {
	st, err := s.inspect(ctx, h)
	if err != nil || st.State != sandbox.Running {
		return err
	}
	d := rundir.Dir(h.RunDir)
	if err := d.NoteStop(reason); err != nil {
		return err
	}
	start, _, err := d.Started()
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, start.Grace+stopPatience)
	defer cancel()
	err = s.ask(asking, d, h)
	if err == nil || ctx.Err() != nil || !errors.Is(err, sandbox.ErrUnavailable) {
		return err
	}
	// Its shim cannot be talked to: then the node ends it.
	n, err := readNote(d)
	if err != nil || n.Home || n.Lost != nil {
		return err
	}
	if err := s.delete(ctx, podName(h.Name), types.UID(n.UID), int64((start.Grace+stopSlack)/time.Second)); err != nil {
		return err
	}
	return s.lose(d, &n, lost{Detail: reason, At: time.Now()})
}

// stopPatience is what the shim gets beyond the grace to end and be seen to have ended.
const stopPatience = time.Minute

// ask has the shim end the command, and waits until it has.
func (s *Sandbox) ask(ctx context.Context, d rundir.Dir, h sandbox.Handle) error {
	l := s.link(d, podName(h.Name))
	err := again(ctx, func() error { return l.call(ctx, http.MethodPost, podshim.PathStop, nil, nil, nil) })
	if err != nil {
		return err
	}
	_, err = s.Wait(ctx, h)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	return err
}

// Remove implements sandbox.Sandbox.
func (s *Sandbox) Remove(ctx context.Context, h sandbox.Handle) error {
	if err := s.remove(ctx, h); err != nil {
		return fmt.Errorf("remove %s: %w", h.Name, explain(err))
	}
	return nil
}

func (s *Sandbox) remove(ctx context.Context, h sandbox.Handle) error {
	d, found, err := find(h)
	if err != nil || !found {
		return err
	}
	unlock, err := d.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	n, err := readNote(d)
	if err != nil {
		return err
	}
	// What has ended may go at once; else its node says when it has.
	grace := int64(1)
	if n.Committed && !n.Home && n.Lost == nil && s.kill(ctx, d, h) == nil || n.Home {
		grace = 0
	}
	if n.UID != "" {
		if err := s.delete(ctx, podName(h.Name), types.UID(n.UID), grace); err != nil {
			return err
		}
	} else if err := s.deleteUnnoted(ctx, d, h); err != nil {
		return err
	}
	s.unlink(d)
	return d.Forget(Name)
}

// kill ends a command, and brings its transcript home.
func (s *Sandbox) kill(ctx context.Context, d rundir.Dir, h sandbox.Handle) error {
	ctx, cancel := context.WithTimeout(ctx, killPatience)
	defer cancel()
	unlock, err := notes(d).Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	l := s.link(d, podName(h.Name))
	if err := l.call(ctx, http.MethodPost, podshim.PathStop, url.Values{"kill": {"1"}}, nil, nil); err != nil {
		return err
	}
	if err := l.call(ctx, http.MethodGet, podshim.PathEnd, nil, nil, nil); err != nil {
		return err
	}
	_, err = l.fetch(ctx)
	return err
}

const killPatience = 20 * time.Second

// deleteUnnoted removes the pod that a process asked for just before it died.
func (s *Sandbox) deleteUnnoted(ctx context.Context, d rundir.Dir, h sandbox.Handle) error {
	pod, err := s.core.Pods(s.opts.Namespace).Get(ctx, podName(h.Name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || pod.Annotations[annotationRunDir] != string(d) {
		return err
	}
	return s.delete(ctx, pod.Name, pod.UID, 1)
}

// Reap removes the pods of this installation whose start nobody remembers: see docker.
func (s *Sandbox) Reap(ctx context.Context) (int, error) {
	if s.opts.Installation == "" {
		return 0, nil
	}
	list, err := s.core.Pods(s.opts.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labelInstallation + "=" + s.opts.Installation,
	})
	if err != nil {
		return 0, fmt.Errorf("look for pods of earlier runs: %w", explain(err))
	}
	var errs []error
	removed := 0
	for _, pod := range list.Items {
		dir := rundir.Dir(pod.Annotations[annotationRunDir])
		if dir == "" {
			continue // a probe, which its own process removes
		}
		start, found, err := dir.Started()
		if err == nil && found && start.Name == pod.Annotations[annotationStart] {
			continue
		}
		if err == nil {
			err = s.delete(ctx, pod.Name, pod.UID, 1)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("remove the pod of an earlier run: %w", explain(err)))
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}
