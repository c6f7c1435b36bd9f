package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/org/ralph-action/internal/redact"
)

const (
	// maxRefusedBody bounds what is kept of the body of a refusal.
	maxRefusedBody = 16 << 10
	// maxRefusedWait bounds how far off a provider may say that it is to be asked again.
	maxRefusedWait = 30 * 24 * time.Hour
)

// Refused is what a provider answered to a request for a model's work that it did
// not do, or that it gave no answer at all.
type Refused struct {
	// Status is that of HTTP; 0 means that the provider could not be reached.
	Status int
	// Host is whom the request went to.
	Host string
	// Body is the beginning of the answer, without keys; or why there is none.
	Body string
	// RetryAt is when the provider wants to be asked again, zero where it does not say.
	RetryAt time.Time
	// Worked: the start had an answer of a model before.
	Worked bool
	// InARow counts the refusals since the last answer, this one included.
	InARow int
	// Final: asking again is of no use, so that nothing of this start is passed on
	// any more.
	Final bool
}

// Watch remembers what the provider refused last, by start: the status on the wire
// says at once what an agent's client may repeat for minutes. It is safe for
// concurrent use.
type Watch struct {
	final func(Refused) bool

	mu     sync.Mutex
	starts map[string]*watched
}

// watched is what is known of a start.
type watched struct {
	worked bool
	last   Refused
}

// NewWatch makes a watch; final says of which refusals asking again is of no use.
func NewWatch(final func(Refused) bool) *Watch {
	return &Watch{final: final, starts: map[string]*watched{}}
}

// Last is what was refused to a start since the last answer of a model; ok is false
// where nothing was. A nil Watch knows nothing.
func (w *Watch) Last(start string) (r Refused, ok bool) {
	if w == nil {
		return Refused{}, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.starts[start]
	if s == nil || s.last.InARow == 0 {
		return Refused{}, false
	}
	return s.last, true
}

// Forget drops what is known of a start that has ended.
func (w *Watch) Forget(start string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.starts, start)
}

// answered notes that a model answered.
func (w *Watch) answered(start string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.of(start)
	s.worked = true
	if !s.last.Final {
		s.last = Refused{}
	}
}

// refused notes a refusal, and says whether it is final.
func (w *Watch) refused(start string, r Refused) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.of(start)
	if s.last.Final {
		return true // the first one says why
	}
	r.Worked, r.InARow = s.worked, s.last.InARow+1
	r.Final = w.final(r)
	s.last = r
	return r.Final
}

func (w *Watch) of(start string) *watched {
	s := w.starts[start]
	if s == nil {
		s = &watched{}
		w.starts[start] = s
	}
	return s
}

// watch notes what a provider answered to an exchange. Of a refusal that is final the
// agent's client is told not to repeat it.
func (h *handler) watch(x *exchange, keys *redact.Masker, r *http.Response) error {
	if h.cfg.Watch == nil || x.call.free {
		return nil
	}
	if r.StatusCode < http.StatusBadRequest {
		h.cfg.Watch.answered(x.start)
		return nil
	}
	head, err := io.ReadAll(io.LimitReader(r.Body, maxRefusedBody))
	if err != nil {
		return fmt.Errorf("read what the provider says: %w", err)
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), r.Body), r.Body}
	refused := Refused{
		Status: r.StatusCode, Host: r.Request.URL.Host, Body: keys.Mask(string(head)),
	}
	if wait := retryAfter(r.Header.Get("Retry-After"), time.Now()); wait > 0 {
		refused.RetryAt = time.Now().Add(min(wait, maxRefusedWait))
	}
	if h.cfg.Watch.refused(x.start, refused) {
		r.Header.Set("X-Should-Retry", "false") // the clients of two providers heed it
	}
	return nil
}

// unreached notes that the provider of an exchange gave no answer.
func (h *handler) unreached(x *exchange, host string, err error) {
	if h.cfg.Watch == nil || x.call.free {
		return
	}
	h.cfg.Watch.refused(x.start, Refused{Host: host, Body: err.Error()})
}

// errFinal is a request of a start whose provider has refused another for good.
var errFinal = errors.New("the provider refuses this run's requests")

// retryAfter reads the header of that name: seconds, or a time.
func retryAfter(value string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil {
		return time.Duration(min(max(n, 0), 1<<30)) * time.Second
	}
	if t, err := http.ParseTime(value); err == nil {
		return t.Sub(now)
	}
	return 0
}
