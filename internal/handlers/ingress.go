package handlers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"
	"github.com/palantir/go-githubapp/githubapp"
	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"

	"github.com/org/ralph-action/internal/store"
)

const (
	// DefaultPath is where GitHub Apps made with go-githubapp expect webhooks.
	DefaultPath = githubapp.DefaultWebhookRoute
	// MaxBody is the largest payload GitHub sends: "payloads are capped at
	// 25 MB" (docs.github.com, webhook events and payloads).
	MaxBody = 25 << 20

	// smallBody is more than nearly all payloads have. A connection may hold so much
	// before its body counts as large, and largeBudget bounds those together. A body is
	// held in memory before its signature can be checked, whoever sends it; only what is
	// signed is copied.
	smallBody   = 64 << 10
	largeBudget = 4 * MaxBody
	// answerTimeout is less than the ten seconds GitHub waits for an answer,
	// so that what goes wrong here is reported by us.
	answerTimeout = 8 * time.Second
	// maxGUID is generous: GitHub's are 36 characters.
	maxGUID = 128

	headerEvent     = "X-GitHub-Event"
	headerGUID      = "X-GitHub-Delivery"
	headerSignature = "X-Hub-Signature-256"
)

// Config is what the ingress needs.
type Config struct {
	// Secrets are the webhook secrets that are valid now: one, or two while
	// they are being changed. None, or an empty one, is refused.
	Secrets []string
	// Keep stores what is accepted, and has it worked if it is new.
	Keep func(context.Context, store.Delivery) error
	// Now is the clock.
	Now func() time.Time
}

// New returns the handler for GitHub's webhooks. It answers
//
//	202  accepted: stored and queued, or stored before, or of no use here
//	400  incomplete; or signed, but without event or delivery id, or not JSON, or not of its type
//	401  no signature, or one that is not ours
//	413  longer than MaxBody, or nested deeper than anything GitHub sends
//	415  compressed (GitHub never does)
//	503  too many at once, or could not be stored; nothing was
//
// Who serves it bounds the connections.
func New(cfg Config) (http.Handler, error) {
	if len(cfg.Secrets) == 0 {
		return nil, errors.New("webhook handler: no secret is configured; without one anybody could start runs")
	}
	in := &ingress{large: semaphore.NewWeighted(largeBudget)}
	for _, secret := range cfg.Secrets {
		if strings.TrimSpace(secret) == "" {
			return nil, errors.New("webhook handler: a secret is empty; without one anybody could start runs")
		}
		in.doors = append(in.doors, door{[]byte(secret), githubapp.NewEventDispatcher([]githubapp.EventHandler{keeper(cfg)}, secret,
			githubapp.WithErrorCallback(func(_ http.ResponseWriter, r *http.Request, err error) {
				*r.Context().Value(failure{}).(*error) = err //nolint:forcetypeassert // put there by ServeHTTP
			}),
			githubapp.WithResponseCallback(func(http.ResponseWriter, *http.Request, string, bool) {}))})
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+DefaultPath, in)
	return mux, nil
}

// failure is the key of where a dispatcher's error goes.
type failure struct{}

// door is the dispatcher for what is signed with one secret.
type door struct {
	secret []byte
	http.Handler
}

// ingress reads and verifies, and hands what was sent to the dispatcher of its secret. (A
// dispatcher reads bodies of any length, copies them before it verifies, and would take SHA-1.)
type ingress struct {
	doors []door
	// large bounds the bytes of large bodies.
	large *semaphore.Weighted
}

// ServeHTTP implements http.Handler.
func (in *ingress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()

	// What the headers alone can tell is refused before anything is read.
	switch encoding := r.Header.Get("Content-Encoding"); {
	case r.ContentLength > MaxBody:
		refuse(w, r, http.StatusRequestEntityTooLarge, "the payload is larger than GitHub sends")
		return
	case encoding != "" && encoding != "identity":
		refuse(w, r, http.StatusUnsupportedMediaType, "compressed payloads are not accepted")
		return
	case !strings.HasPrefix(r.Header.Get(headerSignature), "sha256="): // no other hash is
		refuse(w, r, http.StatusUnauthorized, "missing or malformed "+headerSignature)
		return
	}

	// A sender that dribbles must not hold memory. Not every ResponseWriter can set a
	// deadline; the server's own then has to do.
	deadline, _ := ctx.Deadline()
	if err := http.NewResponseController(w).SetReadDeadline(deadline); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		refuse(w, r, http.StatusServiceUnavailable, "no deadline for reading")
		return
	}
	body, release, err := in.read(ctx, http.MaxBytesReader(w, r.Body, MaxBody), r.ContentLength)
	defer release()
	_, tooLong := errors.AsType[*http.MaxBytesError](err)
	switch {
	case tooLong:
		refuse(w, r, http.StatusRequestEntityTooLarge, "the payload is larger than GitHub sends")
		return
	case errors.Is(err, errBusy):
		refuse(w, r, http.StatusServiceUnavailable, err.Error())
		return
	case err != nil:
		refuse(w, r, http.StatusBadRequest, "the payload did not arrive completely")
		return
	}
	fits := slices.IndexFunc(in.doors, func(d door) bool {
		return github.ValidateSignature(r.Header.Get(headerSignature), body, d.secret) == nil
	})
	switch {
	case fits < 0:
		refuse(w, r, http.StatusUnauthorized, "the signature does not match")
		return
	case r.Header.Get(headerEvent) == "" || !validGUID(r.Header.Get(headerGUID)):
		refuse(w, r, http.StatusBadRequest, "missing "+headerEvent+" or "+headerGUID)
		return
	case !saysWhatItIs(r.Header.Get("Content-Type"), body):
		refuse(w, r, http.StatusBadRequest, "the payload is not of the type that it is said to be")
		return
	}
	err = nil
	r.Body = io.NopCloser(bytes.NewReader(body))
	in.doors[fits].ServeHTTP(w, r.WithContext(context.WithValue(ctx, failure{}, &err)))
	bad, ok := errors.AsType[*badPayloadError](err)
	_, noPayload := errors.AsType[githubapp.ValidationError](err)
	switch {
	case noPayload:
		refuse(w, r, http.StatusBadRequest, "the payload is not of the type that it is said to be")
	case ok:
		refuse(w, r, bad.status, bad.reason)
	case err != nil:
		zerolog.Ctx(r.Context()).Error().Err(err).Msg("webhook could not be stored")
		http.Error(w, "the delivery could not be stored", http.StatusServiceUnavailable)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

var errBusy = errors.New("too many payloads at once")

// read reads a body of that length, -1 where it is not told. release is to be called
// once the body is not needed any longer.
func (in *ingress) read(ctx context.Context, r io.Reader, length int64) (body []byte, release func(), err error) {
	head, err := io.ReadAll(io.LimitReader(r, smallBody))
	if err != nil || len(head) < smallBody {
		return head, func() {}, err
	}
	// Only who has sent that much may hold more: a length alone is a claim.
	size := length
	if size < 0 {
		size = 2 * MaxBody // a buffer that grows is copied
	}
	if in.large.Acquire(ctx, size) != nil {
		return nil, func() {}, errBusy
	}
	buf := bytes.NewBuffer(make([]byte, 0, max(length, smallBody)+bytes.MinRead))
	buf.Write(head)
	_, err = buf.ReadFrom(r)
	return buf.Bytes(), func() { in.large.Release(size) }, err
}

// saysWhatItIs says whether a body, is of a type that
// GitHub sends: JSON, or a form with one field. The type is a header, which nobody
// signs, and the dispatcher would find a form in any text: in JSON with words of a
// stranger's in it, one that the stranger has made.
func saysWhatItIs(contentType string, body []byte) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil:
		return false
	case kind == "application/json":
		return true // a form is none
	case kind == "application/x-www-form-urlencoded":
		// GitHub quotes what would end the field.
		return bytes.HasPrefix(body, []byte("payload=")) && !bytes.ContainsAny(body, "&;")
	default:
		return false
	}
}

// validGUID says whether guid can be a key and appear in a log.
func validGUID(guid string) bool {
	if guid == "" || len(guid) > maxGUID {
		return false
	}
	return !strings.ContainsFunc(guid, func(c rune) bool { return c <= ' ' || c > '~' })
}

func refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	zerolog.Ctx(r.Context()).Warn().Int("status", status).Str("reason", why).Msg("webhook refused")
	http.Error(w, why, status)
}
