package ghapp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim/ghsimtest"
	"github.com/org/ralph-action/internal/run"
)

// bare is a GitHub of one handler, for what no well-behaved server does.
func bare(t *testing.T, life time.Duration, handle http.HandlerFunc) *ghapp.App {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v3/app/installations/1/access_tokens", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"token":"ghs_secret","expires_at":%q}`, time.Now().Add(life).Format(time.RFC3339))
	})
	mux.HandleFunc("/", handle)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return get[*ghapp.App](t)(ghapp.New(ghapp.Config{APIURL: server.URL + "/api/v3/", AppID: 1, PrivateKey: ghsimtest.Key()}))
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	key := ghsimtest.Key()
	for name, cfg := range map[string]ghapp.Config{
		"no key":      {AppID: 1},
		"half a key":  {AppID: 1, PrivateKey: key[:len(key)/2]},
		"two keys":    {AppID: 1, PrivateKey: append(bytes.Clone(key), key...)},
		"broken key":  {AppID: 1, PrivateKey: []byte("-----BEGIN RSA PRIVATE KEY-----\nxx\n-----END RSA PRIVATE KEY-----")},
		"no id":       {PrivateKey: key},
		"bad address": {AppID: 1, PrivateKey: key, APIURL: "github.com"},
		"two hosts": {
			AppID: 1, PrivateKey: key, APIURL: "https://ghe.example/api/v3", GraphQLURL: "https://other.example/graphql",
		},
		"not a scheme": {AppID: 1, PrivateKey: key, APIURL: "ftp://ghe.example/api/v3"},
	} {
		_, err := ghapp.New(cfg)
		if u, ok := errors.AsType[*run.UserError](err); !ok || u.Hint == "" {
			t.Errorf("%s: %v; want a hint for the user", name, err)
		}
	}
	app := get[*ghapp.App](t)(ghapp.New(ghapp.Config{AppID: 1, PrivateKey: key}))
	if got, want := app.WebURL(), "https://github.com"; got != want {
		t.Errorf("pages at %s, want %s", got, want)
	}
}

// TestTokenStaysHome: a redirect to another host gets no token, and no request.
func TestTokenStaysHome(t *testing.T) {
	t.Parallel()
	var stolen atomic.Int32
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) }))
	t.Cleanup(thief.Close)
	app := bare(t, time.Hour, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL+"/x", http.StatusFound)
	})
	if _, err := app.Repo(1, "o", "r").Issue(t.Context(), 1); err == nil {
		t.Error("followed a redirect away")
	}
	if _, err := app.Self(t.Context()); err == nil {
		t.Error("followed a redirect away with the App's own token")
	}
	if n := stolen.Load(); n != 0 {
		t.Errorf("%d requests reached the other host", n)
	}
}

// TestRenamedRepository: reading follows GitHub's redirect; writing does not,
// for it would turn into reading.
func TestRenamedRepository(t *testing.T) {
	t.Parallel()
	app := bare(t, time.Hour, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/api/v3/repos/o/old"):
			w.Header().Set("Location", strings.Replace(r.URL.Path, "repos/o/old", "repositories/5", 1))
			w.WriteHeader(http.StatusMovedPermanently)
		case r.Header.Get("Authorization") != "token ghs_secret":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			_, _ = fmt.Fprint(w, `{"title":"Hello","id":3}`)
		}
	})
	repo := app.Repo(1, "o", "old")
	if got := get[ghapp.Issue](t)(repo.Issue(t.Context(), 1)).Title; got != "Hello" {
		t.Errorf("read %q", got)
	}
	if _, err := repo.Comment(t.Context(), 1, "x"); classOf(err) != ghapp.Permanent {
		t.Errorf("writing to the old name: %v", err)
	}
}

// TestTokenNearItsEnd: a token with less than a minute left is not used
// again.
func TestTokenNearItsEnd(t *testing.T) {
	t.Parallel()
	for life, want := range map[time.Duration]int{50 * time.Second: 2, 10 * time.Minute: 1} {
		app := bare(t, life, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{"id":3}`) })
		for range 2 {
			get[ghapp.Issue](t)(app.Repo(1, "o", "r").Issue(t.Context(), 1))
		}
		if got := app.Calls().ByPurpose["token"]; got != want {
			t.Errorf("life %s: %d tokens for two calls, want %d", life, got, want)
		}
	}
}

func TestClassifyForeign(t *testing.T) {
	t.Parallel()
	for _, err := range []error{nil, errors.New("x")} {
		if class, after := ghapp.Classify(err); class != ghapp.Permanent || after != 0 {
			t.Errorf("%v: %s, %s", err, class, after)
		}
	}
	if class, _ := ghapp.Classify(context.Canceled); class != ghapp.Transient {
		t.Errorf("who gave up: %s", class)
	}
}

// TestErrorText: what GitHub says stays on one line and in bounds.
func TestErrorText(t *testing.T) {
	t.Parallel()
	app := bare(t, time.Hour, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Github-Request-Id", "AB:CD")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = fmt.Fprintf(w, `{"message":"Repository rule\nviolations %s","errors":[{"message":"GH013"}]}`,
			strings.Repeat("x", 5000))
	})
	err := app.Repo(1, "o", "r").CreateBranch(t.Context(), "ralph/7", "0")
	e, ok := errors.AsType[*ghapp.Error](err)
	if !ok || e.Status != 422 || e.RequestID != "AB:CD" || e.Op != "create branch" {
		t.Fatalf("err = %#v", err)
	}
	if text := err.Error(); strings.Contains(text, "\n") || len(text) > 600 ||
		!strings.HasPrefix(text, "create branch: 422: Repository rule violations xxx") {
		t.Errorf("text = %q", text)
	}
}
