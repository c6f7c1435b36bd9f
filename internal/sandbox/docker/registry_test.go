package docker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/sandbox"
)

// What Docker 20.10 to 28 say when a base image cannot be had, and what they say when
// something else has failed.
func TestARegistryThatIsAway(t *testing.T) {
	for said, away := range map[string]bool{
		`Get "http://localhost:1/v2/": dial tcp 127.0.0.1:1: connect: connection refused`:                             true,
		`Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io on 10.0.0.53:53: no such host`: true,
		`Get "https://registry-1.docker.io/v2/": net/http: request canceled while waiting for connection ` +
			`(Client.Timeout exceeded while awaiting headers)`: true,
		`Get "https://ghcr.io/v2/": net/http: TLS handshake timeout`:                                                  true,
		`Head "https://registry-1.docker.io/v2/library/debian/manifests/12": Get "https://auth.docker.io/token": EOF`: true,
		`received unexpected HTTP status: 503 Service Unavailable`:                                                    true,
		`toomanyrequests: You have reached your pull rate limit.`:                                                     true,
		`pull access denied for nope, repository does not exist or may require 'docker login': denied: requested ` +
			`access to the resource is denied`: false,
		`manifest for debian:nope not found: manifest unknown: manifest unknown`:                                    false,
		`Head "https://ghcr.io/v2/o/x/manifests/1": unauthorized: authentication required`:                          false,
		`Get "https://localhost:5000/v2/": http: server gave HTTP response to HTTPS client`:                         false,
		`The command '/bin/sh -c echo Get "https://x": dial tcp: no such host; exit 1' returned a non-zero code: 1`: false,
		`ADD failed: failed to GET https://x.example/y: dial tcp: lookup x.example: no such host`:                   false,
		`dockerfile parse error line 1: unknown instruction: NO`:                                                    false,
	} {
		if got := isRegistryAway(said); got != away {
			t.Errorf("%q: %v", said, got)
		}
	}
}

// A build whose base image cannot be pulled for now is none that failed; asked for again it is
// tried again.
func TestABuildWithoutItsRegistry(t *testing.T) {
	says := make(chan string, 2)
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
			w.Header().Set("Api-Version", "1.44")
		case strings.Contains(r.URL.Path, "/images/"):
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"message":"No such image"}`)
		case strings.HasSuffix(r.URL.Path, "/build"):
			_, _ = io.WriteString(w, `{"stream":"Step 1/1 : FROM x"}`+"\n"+<-says)
		}
	}))
	defer engine.Close()
	t.Setenv("DOCKER_HOST", "tcp://"+strings.TrimPrefix(engine.URL, "http://"))
	box, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := sandbox.Build{Name: "x", Timeout: time.Minute, Context: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("")), nil
	}}
	end := func(said string) (sandbox.BuildStatus, error) {
		t.Helper()
		if s, err := box.Build(t.Context(), b); err != nil || !s.Running {
			t.Fatalf("%+v, %v", s, err)
		}
		box.mu.Lock()
		under := box.builds[b.Name]
		box.mu.Unlock()
		says <- said
		under <- <-under // it has ended
		return box.Build(t.Context(), b)
	}
	if s, err := end(`{"error":"Get \"https://r.example/v2/\": dial tcp: no such host"}`); !errors.Is(err, sandbox.ErrNoRegistry) {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := end(`{"error":"manifest unknown: manifest unknown"}`); err != nil || !strings.Contains(s.Failed, "manifest unknown") {
		t.Errorf("%+v, %v", s, err)
	}
}
