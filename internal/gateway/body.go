package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// maxRequest is the Messages API's own limit on a request: 32 MB.
	maxRequest = 32 << 20
	// maxInFlight bounds the bytes of requests that a process holds, which is until
	// they are sent; others wait. One run holds no more than one largest request.
	maxInFlight = 2 * maxRequest
	// bodyTimeout bounds the time in which a request has to arrive, which it does
	// over a socket of this machine.
	bodyTimeout = 30 * time.Second
)

// InFlight bounds the bytes of requests that the gateways of a process hold
// together.
type InFlight struct{ free *semaphore.Weighted }

// NewInFlight makes the bound for a process.
func NewInFlight() *InFlight { return &InFlight{semaphore.NewWeighted(maxInFlight)} }

// hold waits until a run may hold so many bytes, and gives back what lets go of
// them.
func (h *handler) hold(ctx context.Context, size int64) (release func(), err error) {
	if err := h.own.Acquire(ctx, size); err != nil {
		return nil, context.Cause(ctx)
	}
	if err := h.cfg.InFlight.free.Acquire(ctx, size); err != nil {
		h.own.Release(size)
		return nil, context.Cause(ctx)
	}
	return sync.OnceFunc(func() {
		h.cfg.InFlight.free.Release(size)
		h.own.Release(size)
	}), nil
}

// read reads the body of a request, of at most so many bytes. free is to be called
// once it is not needed any longer; there is none on an error.
func (h *handler) read(w http.ResponseWriter, r *http.Request, most int64) (body []byte, free func(), err error) {
	size := r.ContentLength
	if size > most {
		return nil, nil, refuse("a request may have at most %d bytes: shorten the conversation", most)
	}
	if size < 0 {
		size = most
	}
	release, err := h.hold(r.Context(), size)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	// A sender that dribbles must not hold the memory of others. Tests have writers
	// without deadlines.
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, nil, fmt.Errorf("read the request: %w", err)
	}
	if body, err = readBody(http.MaxBytesReader(w, r.Body, most), r.ContentLength); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, nil, refuse("a request may have at most %d bytes: shorten the conversation", most)
		}
		return nil, nil, fmt.Errorf("read the request: %w", err)
	}
	// Else it would end the answer, too.
	if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, nil, fmt.Errorf("read the request: %w", err)
	}
	return body, release, nil
}

// readBody reads a body of that length, or of one that is not told (-1).
func readBody(r io.Reader, length int64) ([]byte, error) {
	if length < 0 {
		return io.ReadAll(r)
	}
	body := make([]byte, length)
	_, err := io.ReadFull(r, body)
	return body, err
}

// sent is the body of a request that is passed on, which lets go of it when it is read.
type sent struct {
	mu   sync.Mutex
	body io.Reader // nil once nothing of it is needed any longer
	// begun: a part of it was read.
	begun bool
	// release is called where nothing is needed any longer.
	release func()
}

// Read implements io.Reader.
func (s *sent) Read(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun, err = true, io.EOF
	if s.body != nil {
		n, err = s.body.Read(p)
	}
	if err != nil {
		s.drop()
	}
	return n, err
}

// Close implements io.Closer. net/http writes the headers before it reads the body: where it
// has read nothing it may ask for it again.
func (s *sent) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		s.drop()
	}
	return nil
}

// again gives net/http the body for a request that it repeats, since nothing of it was
// written to a connection that was kept.
func (s *sent) again() (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun || s.body == nil {
		return nil, errors.New("the connection ended before the answer began")
	}
	return s, nil
}

// end lets go of the body.
func (s *sent) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
}

func (s *sent) drop() {
	s.body = nil
	s.release()
}
