package handlers_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // to show that it is not accepted
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/queue"
	"github.com/org/ralph-action/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret    = "It's a Secret to Everybody"
	oldSecret = "the secret before that"
)

func now() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// system is the ingress with a real store and a real queue behind real HTTP.
type system struct {
	url   string
	store *store.Store
}

func newSystem(t testing.TB) *system {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	st, err := store.Open(ctx, filepath.Join(t.TempDir(), "bot.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	q := queue.New(st.Due, zerolog.Nop())
	keep := func(ctx context.Context, d store.Delivery) error { return q.Keep(ctx, st, d) }
	return &system{url: serve(t, keep), store: st}
}

// serve serves webhooks on loopback and returns the address of the server.
func serve(t testing.TB, keep func(context.Context, store.Delivery) error) string {
	t.Helper()
	h, err := handlers.New(handlers.Config{Secrets: []string{secret, oldSecret}, Keep: keep, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return srv.URL
}

// unprocessed lists what is stored and not worked.
func (s *system) unprocessed(t testing.TB) []string {
	t.Helper()
	guids, _, err := s.store.Due(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return guids
}

func sign(h func() hash.Hash, prefix, secret string, body []byte) string {
	mac := hmac.New(h, []byte(secret))
	mac.Write(body)
	return prefix + "=" + hex.EncodeToString(mac.Sum(nil))
}

// request is a delivery as GitHub makes it; tests change one thing about it.
type request struct {
	method, path string
	header       http.Header
	body         io.Reader
}

func delivery(event, guid string, body []byte) request {
	return request{
		method: http.MethodPost,
		path:   handlers.DefaultPath,
		header: http.Header{
			"Content-Type":        {"application/json"},
			"User-Agent":          {"GitHub-Hookshot/044aadd"},
			"X-Github-Event":      {event},
			"X-Github-Delivery":   {guid},
			"X-Hub-Signature":     {sign(sha1.New, "sha1", secret, body)},
			"X-Hub-Signature-256": {sign(sha256.New, "sha256", secret, body)},
		},
		body: bytes.NewReader(body),
	}
}

func (r request) with(header, value string) request {
	r.header = maps.Clone(r.header)
	r.header.Del(header)
	if value != "" {
		r.header.Set(header, value)
	}
	return r
}

// do sends r and returns the status.
func (r request) do(ctx context.Context, client *http.Client, base string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, base+r.path, r.body)
	if err != nil {
		return 0, err
	}
	req.Header = r.header
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

func send(t testing.TB, base string, r request) int {
	t.Helper()
	status, err := r.do(t.Context(), http.DefaultClient, base)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// payload is a file of testdata with fields set: "issue.title" is one.
func payload(t testing.TB, file string, set map[string]any) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", file+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	doc["installation"] = map[string]any{"id": 11}
	for path, v := range set {
		at := doc
		names := strings.Split(path, ".")
		for _, n := range names[:len(names)-1] {
			inner, ok := at[n].(map[string]any)
			if !ok {
				t.Fatalf("%s has no object %s", file, n)
			}
			at = inner
		}
		if v == nil {
			delete(at, names[len(names)-1])
		} else {
			at[names[len(names)-1]] = v
		}
	}
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestA1NoSecretNoServer(t *testing.T) {
	t.Parallel()
	for _, secrets := range [][]string{nil, {""}, {secret, ""}, {" \n"}} {
		if _, err := handlers.New(handlers.Config{Secrets: secrets}); err == nil {
			t.Errorf("accepted %q", secrets)
		}
	}
}

func TestA1A2A3RefusesWhatIsNotGitHubs(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	body := payload(t, "issues.labeled", nil)
	good := func() request { return delivery("issues", "guid", body) }
	signed := func(b []byte) request { return delivery("issues", "guid", b) }
	const h256 = "X-Hub-Signature-256"
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, body, "", " "); err != nil {
		t.Fatal(err)
	}
	tooLong := bytes.Repeat([]byte(" "), handlers.MaxBody+1)
	unsized := signed(tooLong)
	unsized.body = io.MultiReader(unsized.body) // the client cannot tell its length
	nested := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)

	for _, tc := range []struct {
		name string
		req  request
		want int
	}{
		{"GET", func() request { r := good(); r.method = http.MethodGet; return r }(), http.StatusMethodNotAllowed},
		{"PUT", func() request { r := good(); r.method = http.MethodPut; return r }(), http.StatusMethodNotAllowed},
		{"elsewhere", func() request { r := good(); r.path = "/"; return r }(), http.StatusNotFound},
		{"below", func() request { r := good(); r.path += "/more"; return r }(), http.StatusNotFound},

		{"unsigned", good().with(h256, "").with("X-Hub-Signature", ""), http.StatusUnauthorized},
		{"SHA-1 only", good().with(h256, ""), http.StatusUnauthorized},
		{"SHA-1 in the place of SHA-256", good().with(h256, sign(sha1.New, "sha1", secret, body)), http.StatusUnauthorized},
		{"SHA-1 called SHA-256", good().with(h256, sign(sha1.New, "sha256", secret, body)), http.StatusUnauthorized},
		{"another secret", good().with(h256, sign(sha256.New, "sha256", "guess", body)), http.StatusUnauthorized},
		{"an empty secret", good().with(h256, sign(sha256.New, "sha256", "", body)), http.StatusUnauthorized},
		{"no digits", good().with(h256, "sha256="), http.StatusUnauthorized},
		{"no hexadecimal", good().with(h256, "sha256="+strings.Repeat("zz", 32)), http.StatusUnauthorized},
		{"a digit too few", good().with(h256, good().header.Get(h256)[:70]), http.StatusUnauthorized},
		{"body written anew", signed(pretty.Bytes()).with(h256, good().header.Get(h256)), http.StatusUnauthorized},
		{
			"a newline more", signed(append(bytes.Clone(body), '\n')).with(h256, good().header.Get(h256)),
			http.StatusUnauthorized,
		},
		{"no body", signed(nil).with(h256, good().header.Get(h256)), http.StatusUnauthorized},

		{"too long", signed(tooLong), http.StatusRequestEntityTooLarge},
		{"too long and unsigned", signed(tooLong).with(h256, ""), http.StatusRequestEntityTooLarge},
		{"too long without saying so", unsized, http.StatusRequestEntityTooLarge},
		{"compressed", good().with("Content-Encoding", "gzip"), http.StatusUnsupportedMediaType},
		{"nested", signed([]byte(nested)), http.StatusRequestEntityTooLarge},

		{"no event", good().with("X-GitHub-Event", ""), http.StatusBadRequest},
		{
			"no event, another secret", good().with("X-GitHub-Event", "").with(h256, sign(sha256.New, "sha256", "guess", body)),
			http.StatusUnauthorized,
		},
		{"no delivery id", good().with("X-GitHub-Delivery", ""), http.StatusBadRequest},
		{"an endless delivery id", good().with("X-GitHub-Delivery", strings.Repeat("a", 129)), http.StatusBadRequest},
		{"a delivery id in two words", good().with("X-GitHub-Delivery", "a b"), http.StatusBadRequest},
		{"signed, not JSON", signed([]byte("{")), http.StatusBadRequest},
		{"signed, empty", signed(nil), http.StatusBadRequest},
		{"signed, wrong types", signed([]byte(`{"action":7}`)), http.StatusBadRequest},
		{
			"signed, no form", signed([]byte("payload=%zz")).with("Content-Type", "application/x-www-form-urlencoded"),
			http.StatusBadRequest,
		},
		{"signed, JSON said to be something else", good().with("Content-Type", "text/plain"), http.StatusBadRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := send(t, s.url, tc.req); got != tc.want {
				t.Errorf("status %d, want %d", got, tc.want)
			}
		})
	}
	if stored := s.unprocessed(t); len(stored) != 0 {
		t.Errorf("stored: %v", stored)
	}
}

func TestAccepts(t *testing.T) {
	t.Parallel()
	body := payload(t, "issues.labeled", map[string]any{"repository.node_id": "R_1"})
	form := []byte("payload=" + url.QueryEscape(string(body)))
	for _, tc := range []struct {
		name string
		req  request
	}{
		{"as GitHub sends it", delivery("issues", "guid", body)},
		{"with a charset", delivery("issues", "guid", body).with("Content-Type", "application/json; charset=utf-8")},
		{
			"with the older secret",
			delivery("issues", "guid", body).with("X-Hub-Signature-256", sign(sha256.New, "sha256", oldSecret, body)),
		},
		{"as a form", delivery("issues", "guid", form).with("Content-Type", "application/x-www-form-urlencoded")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			if got := send(t, s.url, tc.req); got != http.StatusAccepted {
				t.Fatalf("status %d", got)
			}
			got, err := s.store.Delivery(t.Context(), "guid")
			if err != nil {
				t.Fatal(err)
			}
			want := store.Delivery{
				GUID: "guid", Event: "issues", Action: "labeled", Installation: 11, RepoNode: "R_1",
				Body: body, ReceivedAt: now(),
			}
			digest := sha256.Sum256(body)
			want.Digest = digest[:]
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestIgnores(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for _, tc := range []struct {
		name string
		req  request
	}{
		{"ping", delivery("ping", "1", []byte(`{"zen":"Keep it logically awesome.","hook_id":1}`))},
		{"an event nobody handles", delivery("push", "2", []byte(`{"ref":"refs/heads/main"}`))},
		{"an event unheard of", delivery("../x", "3", []byte(`{}`))},
		{
			"an action nobody handles",
			delivery("issues", "4", payload(t, "issues.labeled", map[string]any{"action": "assigned"})),
		},
		{"the largest payload there is", delivery("push", "5",
			fmt.Appendf(nil, `{"pad":"%s"}`, strings.Repeat("x", handlers.MaxBody-len(`{"pad":""}`))))},
	} {
		if got := send(t, s.url, tc.req); got != http.StatusAccepted {
			t.Errorf("%s: status %d", tc.name, got)
		}
	}
	if stored := s.unprocessed(t); len(stored) != 0 {
		t.Errorf("stored: %v", stored)
	}
}

// 500 deliveries of 25 events, many at a time: each event is stored once, and none again after it was
// worked.
func TestA4RedeliveriesAreOneDelivery(t *testing.T) {
	t.Parallel()
	const events, copies, clients = 25, 20, 8
	s := newSystem(t)
	bodies := make([][]byte, events)
	for i := range bodies {
		bodies[i] = payload(t, "issues.labeled", map[string]any{"issue.number": i + 1})
	}
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(clients)
	for i := range events * copies {
		g.Go(func() error {
			req := delivery("issues", fmt.Sprint("guid-", i%events), bodies[i%events])
			status, err := req.do(ctx, http.DefaultClient, s.url)
			if err == nil && status != http.StatusAccepted {
				err = fmt.Errorf("status %d", status)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if stored := s.unprocessed(t); len(stored) != events {
		t.Errorf("stored: %v", stored)
	}
	if err := s.store.InTx(t.Context(), func(tx *store.Tx) error {
		return s.store.MarkDelivery(t.Context(), tx, "guid-0", "done", now())
	}); err != nil {
		t.Fatal(err)
	}
	if got := send(t, s.url, delivery("issues", "guid-0", bodies[0])); got != http.StatusAccepted {
		t.Errorf("status %d", got)
	}
	if left := s.unprocessed(t); len(left) != events-1 {
		t.Errorf("to be worked again: %v", left)
	}
}

// Attack: a webhook that GitHub signed is sent again, under a GUID of the sender's
// own, or as another event. It is not worked again, however late it comes.
func TestReplayUnderANewGUIDStartsNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	body := payload(t, "issues.labeled", nil)
	for _, req := range []request{
		delivery("issues", "guid", body), delivery("issues", "guid", body), delivery("issues", "other", body),
		delivery("pull_request", "third", body), delivery("issues", "form", []byte("payload="+url.QueryEscape(string(body)))).
			with("Content-Type", "application/x-www-form-urlencoded"),
	} {
		if got := send(t, s.url, req); got != http.StatusAccepted {
			t.Errorf("status %d", got)
		}
	}
	if diff := cmp.Diff([]string{"guid"}, s.unprocessed(t)); diff != "" {
		t.Error(diff)
	}
	// Put on again, the label has another time.
	again := payload(t, "issues.labeled", map[string]any{"issue.updated_at": "2026-03-01T11:00:01Z"})
	// An App that is taken off a repository twice may be told so in the same words.
	removed := []byte(`{"action":"removed","installation":{"id":11},"sender":{"login":"ada","id":1,"type":"User"},` +
		`"repositories_removed":[{"node_id":"R_1"}]}`)
	for _, req := range []request{
		delivery("issues", "later", again), delivery("installation_repositories", "off", removed),
		delivery("installation_repositories", "off-again", removed),
	} {
		if got := send(t, s.url, req); got != http.StatusAccepted {
			t.Errorf("status %d", got)
		}
	}
	if diff := cmp.Diff([]string{"guid", "later", "off", "off-again"}, s.unprocessed(t),
		cmpopts.SortSlices(func(a, b string) bool { return a < b })); diff != "" {
		t.Error(diff)
	}
}

func TestWhatCannotBeStoredIsNotAccepted(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	body := payload(t, "issues.labeled", nil)

	base := serve(t, func(context.Context, store.Delivery) error { return errors.New("the disk is full") })
	if got := send(t, base, delivery("issues", "guid", body)); got != http.StatusServiceUnavailable {
		t.Errorf("status %d", got)
	}
	// The same delivery is welcome when things work again.
	if got := send(t, s.url, delivery("issues", "guid", body)); got != http.StatusAccepted {
		t.Errorf("status %d", got)
	}
	if diff := cmp.Diff([]string{"guid"}, s.unprocessed(t)); diff != "" {
		t.Error(diff)
	}
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	if got := send(t, s.url, delivery("issues", "other", body)); got != http.StatusServiceUnavailable {
		t.Errorf("status %d", got)
	}
}

// Attack: what GitHub signed is read as something else. The type of a body is a header,
// which GitHub does not sign, and the words in a body are anybody's: the text of a
// comment, read as a form, would be a webhook of its writer's own making.
func TestSignedWordsAreNoPayload(t *testing.T) {
	t.Parallel()
	forged := url.QueryEscape(string(payload(t, "issues.labeled", map[string]any{"sender.login": "ada"})))
	for name, words := range map[string]string{
		"a field": "x&payload=" + forged + "&y", "with a line end": "x\n&payload=" + forged + "&y=\n", "the last field": "&payload=" + forged,
		"a field in another spelling": "&%70ayload=" + forged + "&",
	} {
		s := newSystem(t)
		var plain bytes.Buffer
		out := json.NewEncoder(&plain)
		out.SetEscapeHTML(false) // as GitHub writes it
		if err := out.Encode(map[string]any{"action": "edited", "changes": words}); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{
			"application/x-www-form-urlencoded", "Application/X-WWW-Form-Urlencoded; charset=utf-8", "multipart/form-data; boundary=x",
		} {
			got := send(t, s.url, delivery("issues", "forged", plain.Bytes()).with("Content-Type", kind))
			if stored := s.unprocessed(t); got != http.StatusBadRequest || len(stored) != 0 {
				t.Errorf("%s as %s: status %d, stored %q", name, kind, got, stored)
			}
		}
	}
	// A form of GitHub's has one field, and the words in it are quoted.
	s := newSystem(t)
	for _, body := range []string{"payload=" + forged + "&payload=" + forged, "x=1&payload=" + forged, "payload=" + forged + "&", "Payload=" + forged, ""} {
		got := send(t, s.url, delivery("issues", "form", []byte(body)).with("Content-Type", "application/x-www-form-urlencoded"))
		if stored := s.unprocessed(t); got != http.StatusBadRequest || len(stored) != 0 {
			t.Errorf("%.20s…: status %d, stored %q", body, got, stored)
		}
	}
}
