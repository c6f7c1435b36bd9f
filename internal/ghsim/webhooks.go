package ghsim

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// hookTimeout is how long GitHub waits for an answer to a webhook.
const hookTimeout = 10 * time.Second

// hook is where an App's webhooks go. One goroutine delivers them, in order.
type hook struct {
	id     int64
	app    *app
	url    string
	secret string
	queue  []*Delivery
	log    []*Delivery
	wake   chan struct{}
}

// Delivery is one attempt to deliver a webhook.
type Delivery struct {
	ID             int64             `json:"id"`
	GUID           string            `json:"guid"` // of the event: a redelivery keeps it
	AppID          int64             `json:"app_id"`
	Event          string            `json:"event"`
	Action         string            `json:"action"`
	DeliveredAt    time.Time         `json:"delivered_at"`
	Duration       time.Duration     `json:"duration"`
	Redelivery     bool              `json:"redelivery"`
	Done           bool              `json:"done"`
	Status         string            `json:"status"` // OK, or what went wrong
	StatusCode     int               `json:"status_code"`
	InstallationID int64             `json:"installation_id"`
	RepositoryID   int64             `json:"repository_id"`
	RequestHeaders map[string]string `json:"request_headers"`
	Payload        json.RawMessage   `json:"payload"`
	Answer         string            `json:"answer"`
	AnswerHeaders  map[string]string `json:"answer_headers"`
}

// eventPermission is the permission an App must hold to be told of an event.
func eventPermission(event string) string {
	switch {
	case strings.HasPrefix(event, "issue"):
		return "issues"
	case strings.HasPrefix(event, "pull_request"):
		return "pull_requests"
	case strings.HasPrefix(event, "check_"):
		return "checks"
	default:
		return "metadata"
	}
}

// subscribers are the installations that are told of an event in r.
func (s *Sim) subscribers(r *repo, event string) []*installation {
	var list []*installation
	for _, a := range s.apps {
		if a.hook.url == "" || !slices.Contains(a.events, event) || a.permissions[eventPermission(event)] == "" {
			continue
		}
		for _, in := range a.installs {
			if slices.Contains(in.repos, r) {
				list = append(list, in)
			}
		}
	}
	return list
}

// emit tells every installed App that subscribed to the event. The payload is
// frozen here: later changes do not show in it.
func (s *Sim) emit(r *repo, event, action string, sender *user, extra obj) {
	for _, in := range s.subscribers(r, event) {
		payload := obj{"repository": s.repoJSON(r), "sender": s.userJSON(sender)}
		if action != "" {
			payload["action"] = action
		}
		maps.Copy(payload, extra)
		s.enqueue(in, event, action, r.id, payload)
	}
}

// emitInstallation tells an App that it was installed; there is no need to
// subscribe to that.
func (s *Sim) emitInstallation(in *installation, sender *user) {
	s.enqueue(in, "installation", "created", 0, obj{
		"action": "created", "installation": s.installationJSON(in), "repositories": shapes(in.repos, s.repoJSON),
		"sender": s.userJSON(sender),
	})
}

func (s *Sim) enqueue(in *installation, event, action string, repoID int64, payload obj) {
	h := in.app.hook
	if h.url == "" {
		return
	}
	if payload["installation"] == nil {
		payload["installation"] = obj{"id": in.id, "node_id": nodeID("INST", in.id)}
	}
	body, err := json.Marshal(payload)
	if err != nil { // our own maps: cannot happen, and must not pass in silence
		panic(fmt.Sprintf("ghsim: payload of %s: %v", event, err))
	}
	s.push(h, &Delivery{
		ID: s.nextID(), GUID: newGUID(), AppID: in.app.id, Event: event, Action: action,
		InstallationID: in.id, RepositoryID: repoID, Payload: body,
	})
}

func (s *Sim) push(h *hook, d *Delivery) {
	h.queue = append(h.queue, d)
	h.log = append(h.log, d)
	s.pending++
	select {
	case h.wake <- struct{}{}:
	default: // already awake
	}
}

// redeliver sends a delivery again, under the GUID of the event.
func (s *Sim) redeliver(h *hook, id int64) error {
	at := slices.IndexFunc(h.log, func(d *Delivery) bool { return d.ID == id })
	if at < 0 {
		return notFound()
	}
	old := h.log[at]
	s.push(h, &Delivery{
		ID: s.nextID(), GUID: old.GUID, AppID: old.AppID, Event: old.Event, Action: old.Action, Redelivery: true,
		InstallationID: old.InstallationID, RepositoryID: old.RepositoryID, Payload: old.Payload,
	})
	return nil
}

// newHook starts the goroutine that delivers an App's webhooks.
func (s *Sim) newHook(a *app, url, secret string) *hook {
	h := &hook{id: s.nextID(), app: a, url: url, secret: secret, wake: make(chan struct{}, 1)}
	s.hooks = append(s.hooks, h)
	client := &http.Client{
		Timeout:       hookTimeout,
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s.work.Go(func() {
		for {
			d, url, secret := s.nextDelivery(h)
			if d == nil {
				return
			}
			done := s.deliver(s.life, client, h.id, *d, url, secret)
			s.mu.Lock()
			*d = done
			s.settle()
			s.mu.Unlock()
		}
	})
	return h
}

// nextDelivery waits for work; nil means that the Sim is closed.
func (s *Sim) nextDelivery(h *hook) (d *Delivery, url, secret string) {
	for {
		if s.life.Err() != nil {
			return nil, "", ""
		}
		s.mu.Lock()
		if len(h.queue) > 0 {
			d, h.queue = h.queue[0], h.queue[1:]
			url, secret = h.url, h.secret
		}
		s.mu.Unlock()
		if d != nil {
			return d, url, secret
		}
		select {
		case <-h.wake:
		case <-s.life.Done():
		}
	}
}

// settle counts a finished delivery.
func (s *Sim) settle() {
	s.pending--
	if s.pending == 0 {
		for _, c := range s.idle {
			close(c)
		}
		s.idle = nil
	}
}

// WaitIdle returns when every webhook caused so far has been answered, refused
// or timed out. It does not know what the App does afterwards.
func (s *Sim) WaitIdle(ctx context.Context) error {
	s.mu.Lock()
	if s.pending == 0 {
		s.mu.Unlock()
		return nil
	}
	c := make(chan struct{})
	s.idle = append(s.idle, c)
	s.mu.Unlock()
	select {
	case <-c:
		return nil
	case <-s.life.Done():
		return errClosed
	case <-ctx.Done():
		return fmt.Errorf("wait for webhooks: %w", context.Cause(ctx))
	}
}

// deliver posts one webhook and returns the finished record.
func (s *Sim) deliver(ctx context.Context, client *http.Client, hookID int64, d Delivery, url, secret string) Delivery {
	d.DeliveredAt = s.now()
	d.Done = true
	d.RequestHeaders = map[string]string{
		"Accept":                                 "*/*",
		"Content-Type":                           "application/json",
		"User-Agent":                             "GitHub-Hookshot/ghsim00",
		"X-GitHub-Delivery":                      d.GUID,
		"X-GitHub-Event":                         d.Event,
		"X-GitHub-Hook-ID":                       strconv.FormatInt(hookID, 10),
		"X-GitHub-Hook-Installation-Target-ID":   strconv.FormatInt(d.AppID, 10),
		"X-GitHub-Hook-Installation-Target-Type": "integration",
	}
	if secret != "" {
		d.RequestHeaders["X-Hub-Signature-256"] = Sign(secret, d.Payload)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(d.Payload))
	if err != nil {
		d.Status = "Invalid URL"
		return d
	}
	for k, v := range d.RequestHeaders {
		req.Header.Set(k, v)
	}
	start := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		d.Duration = time.Since(start)
		d.Status = "failed to connect to host"
		if e, ok := err.(interface{ Timeout() bool }); ok && e.Timeout() {
			d.Status = "timed out"
		}
		return d
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close() // read as far as we want it
	d.Duration = time.Since(start)
	if err != nil {
		d.Status = "failed to read the answer"
		return d
	}
	d.StatusCode, d.Answer = resp.StatusCode, string(body)
	d.AnswerHeaders = map[string]string{}
	for k := range resp.Header {
		d.AnswerHeaders[k] = resp.Header.Get(k)
	}
	d.Status = "OK"
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		d.Status = "Invalid HTTP Response: " + strconv.Itoa(resp.StatusCode)
	}
	return d
}

// Sign is the X-Hub-Signature-256 of a webhook body.
func Sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// newGUID is a random UUID, version 4.
func newGUID() string {
	b := randomBytes(16)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// randomBytes never fails: crypto/rand ends the process where the system has
// no randomness.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}
