package ghapp

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
)

// What is kept of answers, for all repositories together.
const (
	maxKeptAnswers = 500
	maxKeptBody    = 256 << 10
)

// answers keeps what GitHub answered to reads. GitHub is asked each time all
// the same, whether it still holds: that counts against no limit as long as it
// does.
type answers struct {
	mu   sync.Mutex
	kept map[string]keptAnswer
}

type keptAnswer struct {
	tag    string
	header http.Header
	body   []byte
}

// conditional makes reads conditional. Whose token they carry is part of what an
// answer belongs to: another one may see less.
type conditional struct {
	next   http.RoundTripper
	kept   *answers
	reader string
}

func (c *conditional) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		return c.next.RoundTrip(req)
	}
	key := c.reader + " " + req.Header.Get("Accept") + " " + req.URL.String()
	known, ok := c.kept.get(key)
	if ok {
		req = req.Clone(req.Context())
		req.Header.Set("If-None-Match", known.tag)
	}
	resp, err := c.next.RoundTrip(req)
	switch {
	case err != nil:
		return resp, err
	case ok && resp.StatusCode == http.StatusNotModified:
		return known.replay(resp)
	case resp.StatusCode == http.StatusOK && resp.Header.Get("ETag") != "":
		return c.kept.keep(key, resp)
	default:
		return resp, nil
	}
}

func (a *answers) get(key string) (keptAnswer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, ok := a.kept[key]
	return k, ok
}

// keep reads an answer and keeps it, unless it is a large one.
func (a *answers) keep(key string, resp *http.Response) (*http.Response, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxKeptBody+1))
	if err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	if len(body) > maxKeptBody {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
		return resp, nil
	}
	if err := resp.Body.Close(); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	a.mu.Lock()
	defer a.mu.Unlock()
	for old := range a.kept { // any one: which hardly matters, as long as there are not too many
		if len(a.kept) < maxKeptAnswers {
			break
		}
		delete(a.kept, old)
	}
	a.kept[key] = keptAnswer{tag: resp.Header.Get("ETag"), header: resp.Header.Clone(), body: body}
	return resp, nil
}

// replay is the kept answer in the place of "not modified", with what GitHub
// says of limits now.
func (k keptAnswer) replay(resp *http.Response) (*http.Response, error) {
	if err := resp.Body.Close(); err != nil {
		return nil, err
	}
	header := k.header.Clone()
	maps.Copy(header, resp.Header)
	resp.StatusCode, resp.Status = http.StatusOK, "200 OK"
	resp.Header, resp.Body, resp.ContentLength = header, io.NopCloser(bytes.NewReader(k.body)), int64(len(k.body))
	return resp, nil
}
