package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/org/ralph-action/internal/run"
)

const (
	// shortLimit is how long a limit may last that is left to the agent.
	shortLimit = time.Minute
	// maxLimited is how often in a row it is, where nobody says how long it lasts.
	maxLimited = 5
	// maxLimitBody bounds what is read of such an answer.
	maxLimitBody = 64 << 10
)

// final makes an answer that stands for a lasting limit one that no client
// repeats, so that the run waits and no agent has to. How long is passed on. The
// words are ours, since clients also look for limits in them, but for those of an
// account that is empty. Short limits are left to the agent.
func (h *handler) final(x *exchange, p run.Provider, r *http.Response) error {
	n, _ := h.limited.LoadOrStore(x.start, new(atomic.Int32))
	times := n.(*atomic.Int32) //nolint:forcetypeassert // nothing else is put there
	if r.StatusCode != http.StatusTooManyRequests {
		if r.StatusCode < http.StatusMultipleChoices {
			times.Store(0)
		}
		return nil
	}
	if wait := retryAfter(r.Header.Get("Retry-After"), time.Now()); times.Add(1) < maxLimited && wait < shortLimit {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxLimitBody))
	if err = errors.Join(err, r.Body.Close()); err != nil {
		return fmt.Errorf("read what the provider says of its limit: %w", err)
	}
	r.Header.Set(h.cfg.FinalLimit, strconv.Itoa(r.StatusCode))
	r.StatusCode = http.StatusBadRequest
	r.Status = strconv.Itoa(r.StatusCode) + " " + http.StatusText(r.StatusCode)
	if !bytes.Contains(body, []byte(`"insufficient_quota"`)) {
		if body, err = errorBody(p, r.StatusCode, "the model's provider asks to come back later"); err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Del("Content-Encoding")
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

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
