package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/org/ralph-action/internal/httpd"
	"github.com/org/ralph-action/internal/run"
)

const (
	// socketName is the socket in the directory that is mounted.
	socketName = "gw.sock"
	// maxSocketPath is what sun_path of Linux holds, less the closing zero.
	maxSocketPath = 107
	// maxConns bounds the connections of a run: tunnels, requests and what waits for
	// the next one.
	maxConns = 2*maxTunnels + 8*maxWaiting
)

// ErrInUse: another process serves on the socket.
var ErrInUse = errors.New("gateway: socket is in use by another process")

// SocketDir is the directory to mount of a gateway that listens in dir.
func SocketDir(dir string) string { return filepath.Join(dir, "gw") }

// CheckDir says with a *run.UserError that dir is too long for a socket in it.
func CheckDir(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("gateway directory: %w", err)
	}
	path := filepath.Join(SocketDir(dir), socketName)
	if len(path) > maxSocketPath {
		return &run.UserError{
			Message: fmt.Sprintf("the path of the gateway's socket has %d bytes, and Linux allows %d: %s", len(path),
				maxSocketPath, path),
			Hint: "choose a shorter directory for run data",
		}
	}
	return nil
}

// Server serves a gateway on a unix socket.
type Server struct {
	// path is the socket, "" of a server on loopback, and base the address of that.
	path, base string
	http       *http.Server
	done       chan error // the end of Serve; holds one value
	// cut ends the tunnels, which the HTTP server knows nothing of, and serving
	// waits for them.
	cut     context.CancelFunc
	serving sync.WaitGroup
}

// Listen serves h on the socket DIR/gw/gw.sock and returns once connections are
// accepted.
//
// The container's user has to reach the socket, others on the host must not. So
// dir is made with mode 0700 and keeps the host's users out, while the directory
// gw in it, which is what a container mounts, and the socket are open to all. The
// directory is mounted rather than the socket, so that a container sees the new
// socket after a restart.
//
// A socket nobody listens on is replaced. One that is in use is ErrInUse; a file
// in its place, or a path of more than 107 bytes, is an error too.
func Listen(dir string, h http.Handler) (*Server, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("gateway directory: %w", err)
	}
	if err := CheckDir(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(SocketDir(dir), socketName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("gateway directory: %w", err)
	}
	// MkdirAll leaves a directory alone that is there already.
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory
		return nil, fmt.Errorf("gateway directory: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("gateway directory: %w", err)
	}
	if err := os.Chmod(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // see above: the container's user has to pass
		return nil, fmt.Errorf("gateway directory: %w", err)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on gateway socket: %w", err)
	}
	if err := os.Chmod(path, 0o666); err != nil { //nolint:gosec // see above
		return nil, errors.Join(fmt.Errorf("gateway socket: %w", err), l.Close())
	}
	s := serveOn(l, h)
	s.path = path
	return s, nil
}

// ListenLoopback serves h on a port of 127.0.0.1, for agents that have the machine's
// network. Whoever asks there needs the token of a start, like everywhere.
func ListenLoopback(h http.Handler) (*Server, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on loopback for the gateway: %w", err)
	}
	s := serveOn(l, h)
	s.base = "http://" + l.Addr().String()
	return s, nil
}

func serveOn(l net.Listener, h http.Handler) *Server {
	life, cut := context.WithCancel(context.Background())
	s := &Server{done: make(chan error, 1), cut: cut}
	s.http = httpd.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			s.serving.Add(1)
			defer s.serving.Done()
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			stop := context.AfterFunc(life, cancel)
			defer stop()
			r = r.WithContext(ctx)
		}
		h.ServeHTTP(w, r)
	}))
	go func() { s.done <- s.http.Serve(httpd.Limit(l, maxConns)) }()
	return s
}

// removeStale makes room for a new socket.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("gateway socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("gateway socket: %s is not a socket", path)
	}
	if c, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "unix", path); err == nil {
		return errors.Join(fmt.Errorf("%w: %s", ErrInUse, path), c.Close())
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove stale gateway socket: %w", err)
	}
	return nil
}

// Path is the socket on the host.
func (s *Server) Path() string { return s.path }

// BaseURL is where a server on loopback is found, "" for one on a socket.
func (s *Server) BaseURL() string { return s.base }

// Dir is the directory to mount into a container; the socket in it is gw.sock.
func (s *Server) Dir() string { return filepath.Dir(s.path) }

// Close stops accepting, cuts off tunnels, which have no end that could be waited
// for, waits for the requests under way until ctx ends, cuts off what is left, and
// removes the socket.
func (s *Server) Close(ctx context.Context) error {
	s.cut()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("close gateway: %w", err), s.http.Close())
	}
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve gateway: %w", served))
	}
	s.done <- http.ErrServerClosed // a second Close finds it ended
	s.serving.Wait()
	return err
}
