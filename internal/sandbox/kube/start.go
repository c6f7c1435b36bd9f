package kube

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/internal/rundir"
	"github.com/org/ralph-action/internal/sandbox/kube/parcel"
	"github.com/org/ralph-action/internal/sandbox/kube/podshim"
	"github.com/org/ralph-action/internal/sandbox/shim"
)

// Start implements sandbox.Sandbox.
func (s *Sandbox) Start(ctx context.Context, name string, spec sandbox.Spec) (sandbox.Handle, error) {
	h, err := s.start(ctx, name, spec)
	if err != nil {
		return sandbox.Handle{}, fmt.Errorf("start %s: %w", name, explain(err))
	}
	return h, nil
}

func (s *Sandbox) start(ctx context.Context, name string, spec sandbox.Spec) (sandbox.Handle, error) {
	if err := spec.Validate(name); err != nil {
		return sandbox.Handle{}, err
	}
	if err := checkInput(spec.Stdin); err != nil {
		return sandbox.Handle{}, err
	}
	if s.opts.Image != "" && spec.Image != s.opts.Image {
		return sandbox.Handle{}, &run.UserError{
			Message: fmt.Sprintf("this server's cluster runs no image but the operator's, and not %q", spec.Image),
			Hint:    "take the image out of .github/ralph.yml, or ask the operator to set sandbox.image to it",
			Err:     sandbox.ErrNoImage,
		}
	}
	wanted, err := s.pod(name, spec)
	if err != nil {
		return sandbox.Handle{}, err
	}
	d := rundir.Dir(spec.RunDir)
	start, unlock, err := d.Enter(ctx, rundir.Start{Name: name, Grace: spec.Grace})
	if err != nil {
		return sandbox.Handle{}, err
	}
	defer unlock()
	if err := notes(d).Create(); err != nil {
		return sandbox.Handle{}, err
	}
	n, err := begin(d, spec)
	if err != nil {
		return sandbox.Handle{}, err
	}
	if n.Home || n.Lost != nil {
		return handle(name, d, n), nil
	}
	pod, err := s.create(ctx, d, &n, wanted)
	if err != nil {
		return sandbox.Handle{}, err
	}
	h := handle(name, d, n)
	if pod == nil {
		return h, nil // it began, and its pod is gone
	}
	l := s.link(d, pod.Name)
	state, err := s.ready(ctx, l, pod)
	if err != nil {
		return sandbox.Handle{}, err
	}
	if !state.Begun {
		if err := l.commit(ctx, &n, start, spec); err != nil {
			return sandbox.Handle{}, err
		}
	}
	l.follow(n) //nolint:contextcheck // it outlives the call
	return h, nil
}

func handle(name string, d rundir.Dir, n noted) sandbox.Handle {
	return sandbox.Handle{Name: name, RunDir: string(d), ID: n.UID}
}

// follow does what the start needs of this process for as long as it runs.
func (l *link) follow(n noted) {
	if n.GatewayDir != "" && n.Committed {
		l.serveGateway(n.GatewayDir)
	}
}

// begin gives what was noted of the start, or notes it.
func begin(d rundir.Dir, spec sandbox.Spec) (noted, error) {
	n, err := readNote(d)
	if err != nil || n.Trees != nil {
		return n, err
	}
	// What an earlier start of that name left; it was removed.
	for _, name := range []string{d.Stdout(), d.Stderr(), d.Record()} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return n, err
		}
	}
	_, _ = rand.Read(n.Key[:]) // it never fails
	n.GatewayDir = spec.GatewayDir
	n.Trees = map[string]string{podshim.WorkDir: spec.Workspace.Dir}
	if spec.CacheDir != "" {
		n.Trees[podshim.CacheDir] = spec.CacheDir
	}
	return n, n.write(d)
}

// checkInput refuses what is not a regular file: opening a FIFO would block.
func checkInput(name string) error {
	if name == "" {
		return nil
	}
	info, err := os.Lstat(name)
	if err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("standard input: %s is not a regular file", name)
	}
	return nil
}

// create makes the pod, or gives the one that was made under its name; nil where the
// start's own was there and is gone.
func (s *Sandbox) create(ctx context.Context, d rundir.Dir, n *noted, wanted *v1.Pod) (*v1.Pod, error) {
	pods := s.core.Pods(s.opts.Namespace)
	pod, err := pods.Get(ctx, wanted.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if n.Committed {
			return nil, nil //nolint:nilnil // said above
		}
		n.UID = ""
		pod, err = pods.Create(ctx, wanted, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			pod, err = pods.Get(ctx, wanted.Name, metav1.GetOptions{})
		}
	}
	if err != nil {
		return nil, err
	}
	for _, key := range []string{annotationStart, annotationRunDir} {
		if pod.Annotations[key] != wanted.Annotations[key] {
			return nil, fmt.Errorf("%w: the pod %s is not of this start", sandbox.ErrNameTaken, pod.Name)
		}
	}
	switch {
	case n.UID == string(pod.UID):
		return pod, nil
	case n.Committed:
		return nil, nil //nolint:nilnil // said above
	}
	n.UID = string(pod.UID)
	return pod, n.write(d)
}

// ready waits until the shim answers. Where it never will, the pod is removed.
func (s *Sandbox) ready(ctx context.Context, l *link, pod *v1.Pod) (podshim.State, error) {
	if err := s.await(ctx, pod); err != nil {
		var never *neverError
		if errors.As(err, &never) {
			s.unlink(l.d)
			err = errors.Join(err, s.delete(ctx, pod.Name, pod.UID, 0))
		}
		return podshim.State{}, err
	}
	var state podshim.State
	err := again(ctx, func() error { return l.call(ctx, http.MethodGet, podshim.PathState, nil, nil, &state) })
	return state, err
}

// await waits until the pod's command can be talked to.
func (s *Sandbox) await(ctx context.Context, pod *v1.Pod) error {
	name, uid := pod.Name, pod.UID
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.Patience, sandbox.ErrUnavailable)
	defer cancel()
	pods := s.core.Pods(s.opts.Namespace)
	for {
		up, err := judge(pod)
		if up || err != nil {
			return err
		}
		next, err := s.next(ctx, pod)
		if ctx.Err() != nil {
			if errors.Is(context.Cause(ctx), sandbox.ErrUnavailable) {
				return &waitError{waiting(pod), nil}
			}
			return fmt.Errorf("%s: %w", waiting(pod), context.Cause(ctx))
		}
		if err != nil {
			return err
		}
		if pod = next; pod == nil {
			if pod, err = pods.Get(ctx, name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		if pod.UID != uid {
			return &waitError{"somebody removed the pod " + name, nil}
		}
	}
}

// next waits for the pod to change, and gives nil where it is to be asked for again.
func (s *Sandbox) next(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	w, err := s.core.Pods(s.opts.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, pod.Name).String(),
		ResourceVersion: pod.ResourceVersion,
	})
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return nil, nil //nolint:nilnil // said above
	}
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case event, ok := <-w.ResultChan():
		if changed, is := event.Object.(*v1.Pod); ok && is {
			return changed, nil
		}
		return nil, nil //nolint:nilnil // said above
	}
}

// commit sends what the command needs, and starts it.
func (l *link) commit(ctx context.Context, n *noted, start rundir.Start, spec sandbox.Spec) error {
	for _, dir := range slices.Sorted(maps.Keys(n.Trees)) {
		if err := l.sendTree(ctx, n.Trees[dir], dir); err != nil {
			return err
		}
	}
	for _, m := range spec.Mounts {
		info, err := os.Stat(m.Host)
		if err != nil {
			return fmt.Errorf("mount: %w", err)
		}
		if info.IsDir() {
			err = l.sendTree(ctx, m.Host, m.Target)
		} else {
			err = l.sendFile(ctx, m.Host, m.Target, info.Mode().Perm())
		}
		if err != nil {
			return fmt.Errorf("mount %s: %w", m.Target, err)
		}
	}
	if spec.Stdin != "" {
		if err := l.sendFile(ctx, spec.Stdin, podshim.PromptFile, 0o600); err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
	}
	body, err := json.Marshal(command(start, spec))
	if err != nil {
		return err
	}
	// From here on the command may listen, so that the key is not said any more.
	n.Committed = true
	if err := n.write(l.d); err != nil {
		return err
	}
	if spec.OnOwnerDeath == sandbox.KillWithOwner {
		l.hold()
	}
	err = again(ctx, func() error {
		return l.call(ctx, http.MethodPost, podshim.PathStart, nil, bytes.NewReader(body), nil)
	})
	if errors.Is(err, errConflict) {
		return nil // an answer was lost
	}
	return err
}

// command is the request to start it.
func command(start rundir.Start, spec sandbox.Spec) podshim.Start {
	cfg := shim.Config{
		Argv: spec.Argv, HomeFiles: spec.HomeFiles, Dir: path.Join(podshim.WorkDir, filepath.ToSlash(spec.Dir)),
		OutputLimit: cmp.Or(max(spec.OutputLimit, 0), sandbox.DefaultOutputLimit),
		WallTimeout: spec.WallTimeout, IdleTimeout: spec.IdleTimeout, Grace: start.Grace,
		WatchOwner: spec.OnOwnerDeath == sandbox.KillWithOwner,
		Listen:     net.JoinHostPort("127.0.0.1", strconv.Itoa(cmp.Or(spec.GatewayPort, sandbox.DefaultGatewayPort))),
	}
	trees := []string{podshim.WorkDir}
	if spec.CacheDir != "" {
		cfg.Defaults = sandbox.CacheEnv(podshim.CacheDir)
		trees = append(trees, podshim.CacheDir)
	}
	if spec.DiskBytes > 0 || spec.DiskFiles > 0 {
		// The cluster gives each container a file for its last words, which is the command's to write.
		cfg.DiskBytes, cfg.DiskFiles = spec.DiskBytes, spec.DiskFiles
		cfg.Watched = append([]string{podshim.RunDir, v1.TerminationMessagePathDefault}, trees...)
	}
	env := map[string]string{"HOME": podshim.HomeDir, "TMPDIR": "/tmp", "TERM": "dumb", "LANG": "C.UTF-8"}
	maps.Copy(env, spec.Env)
	return podshim.Start{
		Config: cfg, Env: env, Prompt: spec.Stdin != "", Gateway: spec.GatewayDir != "", Trees: trees,
	}
}

// sendTree makes a directory of the pod what one of this machine is.
func (l *link) sendTree(ctx context.Context, from, to string) error {
	return again(ctx, func() error {
		r, w := io.Pipe()
		packed := make(chan error, 1)
		go func() {
			err := parcel.Pack(ctx, w, from, nil)
			packed <- err
			_ = w.CloseWithError(err)
		}()
		err := l.call(ctx, http.MethodPut, podshim.PathTree, url.Values{"dir": {to}}, r, nil)
		_ = r.CloseWithError(io.ErrClosedPipe)
		if own := <-packed; own != nil && !errors.Is(own, io.ErrClosedPipe) {
			return own // of this machine: to repeat it is of no use
		}
		return err
	})
}

func (l *link) sendFile(ctx context.Context, from, to string, mode os.FileMode) error {
	return again(ctx, func() (err error) {
		f, err := os.Open(from) // #nosec G304 -- the caller's file
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		query := url.Values{"path": {to}, "mode": {strconv.FormatUint(uint64(mode), 8)}}
		// It is closed here, and not by whoever sends it.
		return l.call(ctx, http.MethodPut, podshim.PathFile, query, io.NopCloser(f), nil)
	})
}

// delete removes the pod, and returns when it is gone.
func (s *Sandbox) delete(ctx context.Context, name string, uid types.UID, grace int64) error {
	options := metav1.DeleteOptions{GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &uid}}
	for {
		err := s.core.Pods(s.opts.Namespace).Delete(ctx, name, options)
		// A conflict: there is another one by that name.
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		if err != nil || grace == 0 {
			return err
		}
		gone, err := s.gone(ctx, name, uid, time.Duration(grace)*time.Second+goneSlack)
		if gone || err != nil {
			return err
		}
		grace = 0 // its node does not answer
		options.GracePeriodSeconds = &grace
	}
}

// goneSlack is what a node gets to remove a pod beyond the pod's own time.
const goneSlack = 30 * time.Second

// gone waits for a pod that is being deleted to be gone.
func (s *Sandbox) gone(ctx context.Context, name string, uid types.UID, patience time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		pod, err := s.core.Pods(s.opts.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && pod.UID != uid {
			return true, nil
		}
		if err == nil {
			_, err = s.next(ctx, pod)
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}
