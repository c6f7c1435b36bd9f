package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/klog/v2"

	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/internal/rundir"
	"github.com/org/ralph-action/internal/sandbox/kube/podshim"
)

const (
	// greetTime bounds the wait for the shim to say its first word.
	greetTime = 20 * time.Second
	// pingTime is how long a way may be silent before it is tried, and again how long it
	// may take to answer then.
	pingTime = 15 * time.Second
	// gatewayReady is how many connections to the gateway may come at once without one
	// waiting for the way back and forth.
	gatewayReady = 4
	// gatewayPatience is how long the command's connection waits for the gateway.
	gatewayPatience = 5 * time.Minute
	retryPause      = 200 * time.Millisecond
)

// link is this process's way to a pod.
type link struct {
	s    *Sandbox
	d    rundir.Dir
	pod  string
	http *http.Client
	// ctx ends with the link.
	ctx    context.Context //nolint:containedctx // it is the link's life
	cancel context.CancelFunc
	relay  sync.Once
	owner  sync.Once
}

// link gives the way to a start's pod. Nothing is sent before it is used.
func (s *Sandbox) link(d rundir.Dir, pod string) *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.links[d]; ok {
		return l
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &link{s: s, d: d, pod: pod, ctx: ctx, cancel: cancel}
	l.http = &http.Client{Transport: &http.Transport{
		DialTLSContext:    func(context.Context, string, string) (net.Conn, error) { return l.dial() },
		ForceAttemptHTTP2: true,
		HTTP2:             &http.HTTP2Config{SendPingTimeout: pingTime, PingTimeout: pingTime},
	}}
	s.links[d] = l
	return l
}

// unlink closes the way to a start's pod, with all that takes it.
func (s *Sandbox) unlink(d rundir.Dir) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.links[d]; ok {
		l.cancel()
		l.http.CloseIdleConnections()
		delete(s.links, d)
	}
}

// dial connects with the shim.
func (l *link) dial() (_ net.Conn, err error) {
	n, err := readNote(l.d)
	if err != nil {
		return nil, err
	}
	conn := l.s.exec(l.ctx, l.pod, podshim.Program, "shim", "pod", "tun")
	defer func() {
		if err != nil {
			_ = conn.Close()
			err = cmpErr(conn.failure(), err)
		}
	}()
	if err := conn.SetDeadline(time.Now().Add(greetTime)); err != nil {
		return nil, err
	}
	config, err := podshim.Secure(conn, n.Key, !n.Committed)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(l.ctx); err != nil {
		return nil, err
	}
	return secure, conn.SetDeadline(time.Time{})
}

func cmpErr(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// execution is a connection with the standard input and output of a program in a pod.
type execution struct {
	net.Conn

	cancel context.CancelFunc
	mu     sync.Mutex
	err    error
	stderr bytes.Buffer
	ended  chan struct{}
}

// exec starts a program in a pod's container. What keeps it from that, reading says.
func (s *Sandbox) exec(ctx context.Context, pod string, argv ...string) *execution {
	// What client-go logs of a connection that ends, its error says, too.
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	ours, theirs := net.Pipe()
	e := &execution{Conn: ours, cancel: cancel, ended: make(chan struct{})}
	request := s.core.RESTClient().Post().Resource("pods").Namespace(s.opts.Namespace).Name(pod).SubResource("exec").
		VersionedParams(&v1.PodExecOptions{
			Container: mainContainer, Command: argv, Stdin: true, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec)
	go func() {
		defer close(e.ended)
		defer cancel()
		executor, err := remotecommand.NewWebSocketExecutor(s.config, http.MethodGet, request.URL().String())
		if err == nil {
			err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: theirs, Stdout: theirs, Stderr: &e.stderr})
		}
		if err != nil && e.stderr.Len() > 0 {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(e.stderr.String()))
		}
		e.mu.Lock()
		e.err = err
		e.mu.Unlock()
		_ = theirs.Close()
	}()
	return e
}

// Close ends the program, too.
func (e *execution) Close() error {
	e.cancel()
	return e.Conn.Close()
}

// failure is why it ended, once it has.
func (e *execution) failure() error {
	<-e.ended
	e.mu.Lock()
	defer e.mu.Unlock()
	if errors.Is(e.err, context.Canceled) {
		return nil
	}
	return e.err
}

// errConflict says that the shim is at another point than was thought.
var errConflict = errors.New("the shim is at another point")

// do sends a request; the caller closes the answer's body.
func (l *link) do(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Response, error) {
	u := url.URL{Scheme: "https", Host: "pod", Path: path, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	response, err := l.http.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	said, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // it is an error either way
	_ = response.Body.Close()
	err = fmt.Errorf("the pod's shim: %s", strings.TrimSpace(string(said)))
	if response.StatusCode == http.StatusConflict {
		err = fmt.Errorf("%w: %w", errConflict, err)
	}
	return nil, err
}

// call sends a request whose answer is nothing, or JSON.
func (l *link) call(ctx context.Context, method, path string, query url.Values, body io.Reader, answer any) (err error) {
	response, err := l.do(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if answer == nil {
		_, err = io.Copy(io.Discard, response.Body)
	} else {
		err = json.NewDecoder(response.Body).Decode(answer)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	return nil
}

// again repeats what the way to the pod has broken.
func again(ctx context.Context, do func() error) error {
	var err error
	for range 5 {
		if err = do(); err == nil || !errors.Is(err, sandbox.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(retryPause):
		}
	}
	return err
}

// hold keeps a connection to the shim as the owner.
func (l *link) hold() {
	l.owner.Do(func() {
		go func() {
			for l.ctx.Err() == nil {
				if err := l.call(l.ctx, http.MethodPost, podshim.PathOwner, nil, nil, nil); err == nil {
					return // the command has ended
				}
				l.pause()
			}
		}()
	})
}

func (l *link) pause() {
	select {
	case <-l.ctx.Done():
	case <-time.After(retryPause):
	}
}

// serveGateway joins what the command connects to its gateway with the socket in dir,
// until the command has ended.
func (l *link) serveGateway(dir string) {
	l.relay.Do(func() {
		for range gatewayReady {
			go func() {
				for l.ctx.Err() == nil && !errors.Is(l.take(dir), errConflict) {
				}
			}()
		}
	})
}

// take waits for a connection of the command, and has it served.
func (l *link) take(dir string) error {
	up, body := io.Pipe()
	response, err := l.do(l.ctx, http.MethodPost, podshim.PathGateway, nil, up) //nolint:bodyclose // below, by who serves it
	if err != nil {
		if !errors.Is(err, errConflict) {
			l.pause()
		}
		return err
	}
	go func() {
		defer func() { _ = response.Body.Close() }()
		conn, err := l.gateway(filepath.Join(dir, sandbox.GatewaySocket))
		if err != nil {
			_ = body.CloseWithError(err)
			return
		}
		defer func() { _ = conn.Close() }()
		stop := context.AfterFunc(l.ctx, func() { _ = conn.Close() })
		defer stop()
		var both sync.WaitGroup
		both.Go(func() {
			if err := podshim.Unframe(conn, response.Body); err != nil {
				_ = conn.Close()
				return
			}
			if half, ok := conn.(*net.UnixConn); ok {
				_ = half.CloseWrite()
			}
		})
		_, err = io.Copy(body, conn)
		_ = body.CloseWithError(err) // nil is its end
		both.Wait()
	}()
	return nil
}

// gateway connects to the gateway, which may be away for a while.
func (l *link) gateway(path string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(l.ctx, gatewayPatience)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(retryPause / 2):
		}
	}
}
