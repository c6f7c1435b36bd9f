package podshim

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/org/ralph-action/internal/sandbox/kube/parcel"
)

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, do func(http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			err := do(w, r)
			switch {
			case err == nil:
			case errors.Is(err, errBegun) || errors.Is(err, errNotBegun):
				http.Error(w, err.Error(), http.StatusConflict)
			default:
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		})
	}
	handle("GET "+PathState, s.state)
	handle("PUT "+PathTree, s.takeTree)
	handle("GET "+PathTree, s.giveTree)
	handle("PUT "+PathFile, s.takeFile)
	handle("POST "+PathStart, s.start)
	handle("GET "+PathOutput, s.output)
	handle("GET "+PathEnd, s.end)
	handle("POST "+PathStop, func(_ http.ResponseWriter, r *http.Request) error { return s.stop(r.FormValue("kill") == "1") })
	handle("POST "+PathOwner, s.owner)
	handle("POST "+PathGateway, s.gateway)
	return mux
}

func (s *server) state(w http.ResponseWriter, _ *http.Request) error {
	s.mu.Lock()
	now := State{Begun: s.begun}
	s.mu.Unlock()
	select {
	case <-s.ended:
		now.Ended = true
	default:
	}
	return json.NewEncoder(w).Encode(now)
}

// before says whether the command has not begun.
func (s *server) before() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		return errBegun
	}
	return nil
}

func (s *server) takeTree(_ http.ResponseWriter, r *http.Request) error {
	if err := s.before(); err != nil {
		return err
	}
	return parcel.Unpack(r.Context(), r.URL.Query().Get("dir"), r.Body)
}

func (s *server) takeFile(_ http.ResponseWriter, r *http.Request) (err error) {
	if err := s.before(); err != nil {
		return err
	}
	mode, err := strconv.ParseUint(r.URL.Query().Get("mode"), 8, 32)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(r.URL.Query().Get("path"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) // #nosec G304 G703 -- the bot's choice
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r.Body)
	return errors.Join(err, f.Chmod(os.FileMode(mode)&os.ModePerm), f.Close())
}

func (s *server) start(_ http.ResponseWriter, r *http.Request) error {
	var start Start
	if err := json.NewDecoder(r.Body).Decode(&start); err != nil {
		return err
	}
	return s.begin(r.Context(), start)
}

// environment is the image's, without what the cluster has added, and what the bot adds.
func environment(image []string, add map[string]string) []string {
	var env []string
	for _, kv := range image {
		name, _, _ := strings.Cut(kv, "=")
		if _, set := add[name]; !set && !strings.HasPrefix(name, "KUBERNETES_") {
			env = append(env, kv)
		}
	}
	for name, value := range add {
		env = append(env, name+"="+value)
	}
	return env
}

func (s *server) output(w http.ResponseWriter, r *http.Request) error {
	s.mu.Lock()
	begun := s.begun
	s.mu.Unlock()
	if !begun {
		return errNotBegun
	}
	// First: what it tells of has been written before.
	record, err := whole(s.record)
	if err != nil {
		return err
	}
	stderr, err := whole(s.stderr)
	if err != nil {
		return err
	}
	if strconv.FormatUint(uint64(crc32.ChecksumIEEE(stderr)), 10) == r.URL.Query().Get("stderr") {
		stderr = nil
	}
	from, err := strconv.ParseInt(r.URL.Query().Get("stdout"), 10, 64)
	if err != nil {
		return err
	}
	info, err := s.stdout.Stat()
	if err != nil {
		return err
	}
	out := Output{Record: record, Stderr: stderr, Stdout: max(info.Size()-from, 0)}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		return err
	}
	_, err = io.Copy(w, io.NewSectionReader(s.stdout, from, out.Stdout))
	abortOn(err)
	return nil
}

func whole(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.NewSectionReader(f, 0, info.Size()))
	if err != nil {
		return nil, fmt.Errorf("read the transcript: %w", err)
	}
	return data, nil
}

// abortOn cuts off an answer that cannot be completed.
func abortOn(err error) {
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

func (s *server) giveTree(w http.ResponseWriter, r *http.Request) error {
	select {
	case <-s.ended:
	default:
		return errBegun
	}
	dir := r.URL.Query().Get("dir")
	s.mu.Lock()
	known, ok := s.known[dir]
	s.mu.Unlock()
	if !ok {
		return fmt.Errorf("%q is not given back", dir)
	}
	abortOn(parcel.Pack(r.Context(), w, dir, known))
	return nil
}

func (s *server) end(_ http.ResponseWriter, r *http.Request) error {
	select {
	case <-s.ended:
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

func (s *server) owner(w http.ResponseWriter, r *http.Request) error {
	defer s.own()()
	w.WriteHeader(http.StatusOK)
	if err := http.NewResponseController(w).Flush(); err != nil {
		return err
	}
	select {
	case <-s.ended:
	case <-r.Context().Done():
	}
	return nil
}

func (s *server) gateway(w http.ResponseWriter, r *http.Request) error {
	var conn net.Conn
	select {
	case conn = <-s.waiting:
	case <-s.ended:
		return errBegun
	case <-r.Context().Done():
		return r.Context().Err()
	}
	defer func() { _ = conn.Close() }()
	w.WriteHeader(http.StatusOK)
	if err := http.NewResponseController(w).Flush(); err != nil {
		return err
	}
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := io.Copy(conn, r.Body); err != nil {
			_ = conn.Close()
			return
		}
		if half, ok := conn.(*net.UnixConn); ok {
			_ = half.CloseWrite()
		}
	})
	abortOn(frames(flushed{w, http.NewResponseController(w)}, conn))
	both.Wait()
	return nil
}

// frames writes what r gives, each part after its length, and a length of 0 at its end:
// an answer that ends would end the other direction, too.
func frames(w io.Writer, r io.Reader) error {
	const head = 4
	buf := make([]byte, head+32<<10)
	for {
		n, err := r.Read(buf[head:])
		if n > 0 || errors.Is(err, io.EOF) {
			binary.BigEndian.PutUint32(buf, uint32(n)) // #nosec G115 -- it is smaller
			if _, err := w.Write(buf[:head+n]); err != nil {
				return err
			}
		}
		if n > 0 && err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			if n > 0 {
				binary.BigEndian.PutUint32(buf, 0)
				_, err = w.Write(buf[:head])
				return err
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// flushed writes through to the other end.
type flushed struct {
	w       io.Writer
	control *http.ResponseController
}

func (f flushed) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	return n, errors.Join(err, f.control.Flush())
}

// Unframe copies what frames wrote to w, up to its end.
func Unframe(w io.Writer, r io.Reader) error {
	for {
		var head [4]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return err
		}
		n := int64(binary.BigEndian.Uint32(head[:]))
		if n == 0 {
			return nil
		}
		if _, err := io.CopyN(w, r, n); err != nil {
			return err
		}
	}
}
