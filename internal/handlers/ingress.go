package handlers

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

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

	// smallBody is more than nearly all payloads have. Each request may hold so much
	// before its body counts as large; smallBudget bounds these together, largeBudget
	// the bodies that are larger. A body is held in memory before its signature can be
	// checked, whoever sends it.
	smallBody   = 64 << 10
	smallBudget = 512 * smallBody
	largeBudget = 4 * MaxBody
	// answerTimeout is less than the ten seconds GitHub waits for an answer,
	// so that what goes wrong here is reported by us.
	answerTimeout = 8 * time.Second
	// maxGUID is generous: GitHub's are 36 characters.
	maxGUID = 128

	headerEvent     = "X-GitHub-Event"
	headerGUID      = "X-GitHub-Delivery"
	headerSignature = "X-Hub-Signature-256"
	signaturePrefix = "sha256="
)

// inbox stores accepted deliveries; *store.Store is one.
type inbox interface {
	InTx(ctx context.Context, f func(tx *store.Tx) error) error
	InsertDelivery(ctx context.Context, tx *store.Tx, d store.Delivery) (fresh bool, err error)
}

// deliverer has a delivery worked once it is stored; *queue.Queue is one.
type deliverer interface {
	Deliver(tx *store.Tx, guid string)
}

// Config is what the ingress needs.
type Config struct {
	// Secrets are the webhook secrets that are valid now: one, or two while
	// they are being changed. None, or an empty one, is refused.
	Secrets []string
	// Path is the URL path of the webhook; "" means DefaultPath.
	Path string
	// Inbox and Queue take what is accepted.
	Inbox inbox
	Queue deliverer
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// New returns the handler for GitHub's webhooks. It answers
//
//	202  accepted: stored and queued, or stored before, or of no use here
//	400  signed, but without event or delivery id, or not JSON, or not of its type
//	401  no signature, or one that is not ours
//	413  longer than MaxBody, or nested deeper than anything GitHub sends
//	415  compressed (GitHub never does)
//	503  too many at once, or could not be stored; nothing was
func New(cfg Config) (http.Handler, error) {
	if len(cfg.Secrets) == 0 {
		return nil, errors.New("webhook handler: no secret is configured; without one anybody could start runs")
	}
	if cfg.Inbox == nil || cfg.Queue == nil {
		return nil, errors.New("webhook handler: no inbox or no queue")
	}
	if cfg.Path == "" {
		cfg.Path = DefaultPath
	}
	if !strings.HasPrefix(cfg.Path, "/") || strings.ContainsAny(cfg.Path, "{} ") {
		return nil, fmt.Errorf("webhook handler: %q is not a URL path", cfg.Path)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}

	in := &ingress{small: semaphore.NewWeighted(smallBudget), large: semaphore.NewWeighted(largeBudget)}
	keep := &keeper{inbox: cfg.Inbox, queue: cfg.Queue, now: cfg.Now}
	for _, secret := range cfg.Secrets {
		if strings.TrimSpace(secret) == "" {
			return nil, errors.New("webhook handler: a secret is empty; without one anybody could start runs")
		}
		in.doors = append(in.doors, door{
			secret: []byte(secret),
			dispatch: githubapp.NewEventDispatcher([]githubapp.EventHandler{keep}, secret,
				githubapp.WithErrorCallback(answerError),
				githubapp.WithResponseCallback(answerAccepted)),
		})
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+cfg.Path, in)
	return mux, nil
}

// ingress reads and verifies, and hands what is genuine to the dispatcher that
// was built for the secret that fits. (The dispatcher knows one secret, reads
// bodies of any length, and would take SHA-1.)
type ingress struct {
	doors []door
	// small and large bound the bytes of bodies.
	small, large *semaphore.Weighted
}

type door struct {
	secret   []byte
	dispatch http.Handler
}

// ServeHTTP implements http.Handler.
func (in *ingress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()

	// What the headers alone can tell is refused before anything is read.
	if r.ContentLength > MaxBody {
		refuse(w, r, http.StatusRequestEntityTooLarge, "the payload is larger than GitHub sends")
		return
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		refuse(w, r, http.StatusUnsupportedMediaType, "compressed payloads are not accepted")
		return
	}
	signature, ok := parseSignature(r.Header.Get(headerSignature))
	if !ok {
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
	if err != nil {
		_, tooLong := errors.AsType[*http.MaxBytesError](err)
		switch {
		case tooLong:
			refuse(w, r, http.StatusRequestEntityTooLarge, "the payload is larger than GitHub sends")
		case errors.Is(err, errBusy):
			refuse(w, r, http.StatusServiceUnavailable, err.Error())
		default:
			refuse(w, r, http.StatusBadRequest, "the payload did not arrive completely")
		}
		return
	}
	defer release()

	dispatch := in.match(body, signature)
	if dispatch == nil {
		refuse(w, r, http.StatusUnauthorized, "the signature does not match")
		return
	}
	if r.Header.Get(headerEvent) == "" || !validGUID(r.Header.Get(headerGUID)) {
		refuse(w, r, http.StatusBadRequest, "missing "+headerEvent+" or "+headerGUID)
		return
	}
	if !saysWhatItIs(r.Header.Get("Content-Type"), body) {
		refuse(w, r, http.StatusBadRequest, "the payload is not of the type that it is said to be")
		return
	}
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	dispatch.ServeHTTP(w, r)
}

var errBusy = errors.New("too many payloads at once")

// read reads a body of that length, -1 where it is not told. release is to be called
// once the body is not needed any longer; there is none on an error.
func (in *ingress) read(ctx context.Context, r io.Reader, length int64) (body []byte, release func(), err error) {
	var held []func()
	free := func() {
		for _, release := range held {
			release()
		}
	}
	defer func() {
		if err != nil {
			free()
		}
	}()
	hold := func(of *semaphore.Weighted, size int64) error {
		if of.Acquire(ctx, size) != nil {
			return errBusy
		}
		held = append(held, func() { of.Release(size) })
		return nil
	}
	size := length
	if size < 0 {
		size = 2 * MaxBody // a buffer that grows is copied
	}
	begin := min(size, smallBody)
	if err := hold(in.small, begin); err != nil {
		return nil, nil, err
	}
	body = make([]byte, begin)
	n, err := io.ReadFull(r, body)
	if length < 0 && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		return body[:n], free, nil
	}
	if err != nil || size == begin {
		return body, free, err
	}
	// Only who has sent that much may hold more: a length alone is a claim.
	if err := hold(in.large, size); err != nil {
		return nil, nil, err
	}
	if length >= 0 {
		body = append(make([]byte, 0, length), body...)
		_, err = io.ReadFull(r, body[n:length])
		return body[:length], free, err
	}
	buf := bytes.NewBuffer(body)
	_, err = buf.ReadFrom(r)
	return buf.Bytes(), free, err
}

// match returns the dispatcher of the secret the body was signed with, or nil.
func (in *ingress) match(body, signature []byte) http.Handler {
	for _, d := range in.doors {
		mac := hmac.New(sha256.New, d.secret)
		mac.Write(body) // never fails, says hash.Hash
		if hmac.Equal(mac.Sum(nil), signature) {
			return d.dispatch
		}
	}
	return nil
}

// parseSignature reads "sha256=" and 64 hexadecimal digits. No other hash is
// accepted, although the dispatcher would.
func parseSignature(header string) ([]byte, bool) {
	digits, ok := strings.CutPrefix(header, signaturePrefix)
	if !ok {
		return nil, false
	}
	sum, err := hex.DecodeString(digits)
	return sum, err == nil && len(sum) == sha256.Size
}

// saysWhatItIs says whether a body, of which the signature holds, is of a type that
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

// answerAccepted is the dispatcher's answer to what went well.
func answerAccepted(w http.ResponseWriter, _ *http.Request, _ string, _ bool) {
	w.WriteHeader(http.StatusAccepted)
}

// answerError is the dispatcher's answer to what did not.
func answerError(w http.ResponseWriter, r *http.Request, err error) {
	if bad, ok := errors.AsType[*badPayloadError](err); ok {
		refuse(w, r, bad.status, bad.reason)
		return
	}
	if bad, ok := errors.AsType[githubapp.ValidationError](err); ok {
		refuse(w, r, http.StatusBadRequest, bad.Error())
		return
	}
	zerolog.Ctx(r.Context()).Error().Err(err).Msg("webhook could not be stored")
	http.Error(w, "the delivery could not be stored", http.StatusServiceUnavailable)
}
