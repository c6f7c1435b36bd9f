package gateway

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/redact"
)

// passable refuses an answer that is none of the API's: one that sends the client
// elsewhere, or that cannot be read here.
func passable(r *http.Response) error {
	switch {
	case r.StatusCode < http.StatusOK, r.StatusCode >= http.StatusMultipleChoices && r.StatusCode < http.StatusBadRequest:
		return refuse("the model endpoint answers with a redirect (%d), which is not followed: the operator has to configure "+
			"the address it leads to", r.StatusCode)
	case !plainAnswer(r):
		return refuse("the model endpoint answers in a compression that was not asked for")
	}
	return nil
}

// plainAnswer says whether an answer comes as it is.
func plainAnswer(r *http.Response) bool {
	return slices.Contains([]string{"", "identity"}, strings.ToLower(r.Header.Get("Content-Encoding")))
}

// mask takes the keys out of an answer, and what would send its reader elsewhere.
func mask(keys *redact.Masker, r *http.Response) {
	for _, name := range []string{
		"Set-Cookie", "Location", "Content-Location", "Refresh", "Link", "Alt-Svc",
		// The length changes where a key is masked.
		"Content-Length",
	} {
		r.Header.Del(name)
	}
	for name, values := range r.Header {
		if keys.Mask(name) != name {
			delete(r.Header, name)
			continue
		}
		for i, v := range values {
			values[i] = keys.Mask(v)
		}
	}
	m := &masked{body: r.Body, answer: r}
	m.keys = keys.Writer(&m.out)
	r.Body, r.ContentLength = m, -1
}

// masked is the body of an answer without the keys. Only what may be the beginning
// of one is held back.
type masked struct {
	answer *http.Response
	body   io.ReadCloser
	keys   *redact.Writer
	out    bytes.Buffer
	err    error
}

// Read implements io.Reader.
func (m *masked) Read(p []byte) (int, error) {
	for m.out.Len() == 0 && m.err == nil {
		var n int
		n, m.err = m.body.Read(p)
		_, _ = m.keys.Write(p[:n]) // a buffer takes all
		if m.err == nil {
			continue
		}
		// Trailers would follow. Where the answer breaks off what was held back may be
		// most of a key.
		m.answer.Trailer = nil
		if errors.Is(m.err, io.EOF) {
			_ = m.keys.Close()
		}
	}
	if m.out.Len() > 0 {
		return m.out.Read(p)
	}
	return 0, m.err
}

// Close implements io.Closer.
func (m *masked) Close() error { return m.body.Close() }

// lastAnswer leaves out the answers before the last one (1xx), whose headers nobody
// has looked at.
type lastAnswer struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w lastAnswer) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Unwrap is for http.ResponseController.
func (w lastAnswer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
