package podshim

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/org/ralph-action/internal/sandbox/internal/syscalls"
	"github.com/org/ralph-action/internal/sandbox/kube/parcel"
	"github.com/org/ralph-action/internal/sandbox/shim"
)

const (
	// strangers is how many connections there may be that have not shown the key, and
	// strangerTime how long they may take.
	strangers    = 32
	strangerTime = 10 * time.Second
	acceptPause  = 10 * time.Millisecond
)

// server is the first process of a pod.
type server struct {
	// signals are for the command.
	signals chan os.Signal
	// waiting are connections of the command to the gateway that nobody has taken.
	waiting chan net.Conn
	// ended is closed when the command has.
	ended chan struct{}

	mu    sync.Mutex
	key   *Key
	begun bool
	// What the command writes, by files that have no name.
	record, stdout, stderr *os.File
	known                  map[string]parcel.Known
	// owners are the connections of the owner, gone is closed when there was none for a
	// while, and leaving does that.
	owners  int
	gone    chan struct{}
	leaving *time.Timer
}

// serve returns when it is told to end and no command runs.
func serve(ctx context.Context) error {
	if err := shim.Hide(); err != nil {
		return err
	}
	told := make(chan os.Signal, 8)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	s := &server{
		signals: make(chan os.Signal, 8), waiting: make(chan net.Conn), ended: make(chan struct{}), gone: make(chan struct{}),
		known: map[string]parcel.Known{},
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	gateway, err := (&net.ListenConfig{}).Listen(ctx, "unix", gatewaySocket)
	if err != nil {
		return err
	}
	go s.takeGateway(gateway)
	secured := &listener{Listener: l, conns: make(chan net.Conn)}
	go s.takeBot(ctx, l, secured)
	failed := make(chan error, 1)
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: strangerTime}
	go func() { failed <- server.Serve(secured) }()
	for {
		select {
		case err := <-failed:
			return err
		case sig := <-told:
			if s.ends(sig) {
				return nil
			}
		}
	}
}

// ends says whether the pod is to end now; a command that runs is told to, and what is
// left of the time is for the bot to fetch its output.
func (s *server) ends(sig os.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		return true
	}
	select {
	case <-s.ended:
		return true
	default:
	}
	select {
	case s.signals <- sig:
	default: // it has been told already
	}
	return false
}

// listener hands out connections of those who know the key.
type listener struct {
	net.Listener

	conns chan net.Conn
}

func (l *listener) Accept() (net.Conn, error) {
	conn, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (s *server) takeBot(ctx context.Context, l net.Listener, secured *listener) {
	defer close(secured.conns)
	room := make(chan struct{}, strangers)
	for {
		room <- struct{}{}
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors: some will be free again
			<-time.After(acceptPause)
			<-room
			continue
		}
		go func() {
			defer func() { <-room }()
			secure, err := s.secure(ctx, conn)
			if err != nil {
				_ = conn.Close()
				return
			}
			secured.conns <- secure
		}()
	}
}

func (s *server) secure(ctx context.Context, conn net.Conn) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, strangerTime)
	defer cancel()
	_ = conn.SetDeadline(time.Now().Add(strangerTime))
	key, err := s.greet(conn)
	if err != nil {
		return nil, err
	}
	config, err := key.config(shimEnd, botEnd)
	if err != nil {
		return nil, err
	}
	secure := tls.Server(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return secure, nil
}

// greet gives the key, which the first one to connect brings.
func (s *server) greet(conn net.Conn) (Key, error) {
	s.mu.Lock()
	known := s.key
	s.mu.Unlock()
	if known != nil {
		_, err := conn.Write([]byte{hasKey})
		return *known, err
	}
	var key Key
	if _, err := conn.Write([]byte{wantsKey}); err != nil {
		return Key{}, err
	}
	if _, err := io.ReadFull(conn, key[:]); err != nil {
		return Key{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key == nil {
		s.key = &key
	}
	if subtle.ConstantTimeCompare(key[:], s.key[:]) != 1 {
		return Key{}, errStranger
	}
	return key, nil
}

// takeGateway has what the command connects wait for the bot.
func (s *server) takeGateway(l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			<-time.After(acceptPause) // as above
			continue
		}
		go func() { s.waiting <- conn }()
	}
}

// begin starts the command, once.
func (s *server) begin(ctx context.Context, start Start) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		return errBegun
	}
	cfg := start.Config
	cfg.Stdout, cfg.Stderr, cfg.Record = RunDir+"/stdout", RunDir+"/stderr", RunDir+"/record"
	cfg.Seal, cfg.Guests = true, true
	cfg.Env = environment(os.Environ(), start.Env)
	if start.Prompt {
		cfg.Stdin = PromptFile
	}
	if start.Gateway {
		cfg.Socket = gatewaySocket
	} else {
		cfg.Listen = ""
	}
	for name, f := range map[string]**os.File{cfg.Stdout: &s.stdout, cfg.Stderr: &s.stderr, cfg.Record: &s.record} {
		var err error
		if *f, err = os.OpenFile(name, os.O_RDONLY|os.O_CREATE, 0o600); err != nil { // #nosec G304 -- a path of ours
			return err
		}
	}
	for _, dir := range start.Trees {
		known, err := parcel.Note(ctx, dir)
		if err != nil {
			return err
		}
		s.known[dir] = known
	}
	// The runtime's own filter may be older than some of the ways out of it.
	if err := syscalls.Restrict(); err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	s.begun = true
	if cfg.WatchOwner {
		s.leave()
	}
	ready := make(chan struct{})
	failed := make(chan error, 1)
	go func() { //nolint:contextcheck // it outlives the request
		err := shim.Run(cfg, s.signals, s.gone, sync.OnceFunc(func() { close(ready) }))
		failed <- err
		close(s.ended)
	}()
	select {
	case <-ready:
		return nil
	case err := <-failed:
		if err == nil {
			return nil
		}
		return fmt.Errorf("run the command: %w", err)
	}
}

var errBegun = errors.New("the command has begun")

// stop asks the command to end, or ends it.
func (s *server) stop(kill bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		return errNotBegun
	}
	if kill {
		return shim.Kill()
	}
	select {
	case s.signals <- syscall.SIGTERM:
	default:
	}
	return nil
}

var errNotBegun = errors.New("the command has not begun")

// own counts the connections of the owner.
func (s *server) own() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owners++
	if s.leaving != nil {
		s.leaving.Stop()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.owners--; s.owners == 0 {
			s.leave()
		}
	}
}

// leave waits for the owner to come back. s.mu is held.
func (s *server) leave() {
	if s.owners > 0 {
		return
	}
	s.leaving = time.AfterFunc(ownerPatience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		select {
		case <-s.gone:
		default:
			if s.owners == 0 {
				close(s.gone)
			}
		}
	})
}
