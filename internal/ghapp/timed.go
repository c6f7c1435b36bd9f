package ghapp

import (
	"context"
	"io"
	"net/http"
	"time"
)

// callTime is how long a call may take, with its answer. commitTime is for one that carries up to 35 MiB.
const (
	callTime   = 30 * time.Second
	commitTime = time.Minute
)

// timed bounds the time that next takes for a call, with its answer.
type timed struct {
	next func(*http.Request) (*http.Response, error)
}

func (t timed) RoundTrip(req *http.Request) (*http.Response, error) {
	most := callTime
	if purposeOf(req.Context()) == "commit" {
		most = commitTime
	}
	ctx, cancel := context.WithTimeout(req.Context(), most)
	resp, err := t.next(req.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &endingBody{ReadCloser: resp.Body, end: cancel}
	return resp, nil
}

// endingBody ends the time of a call with its answer, when that is closed or was read.
type endingBody struct {
	io.ReadCloser

	end context.CancelFunc
}

func (b *endingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
