package ghapp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/org/ralph-action/internal/strs"
)

// Class says what an error of this package asks of the caller.
type Class string

// The classes of errors.
const (
	// Permanent: repeating the call would fail again.
	Permanent Class = "permanent"
	// RateLimited: come back after the time Classify gives.
	RateLimited Class = "rate_limited"
	// Transient: GitHub or the network had trouble. The call may have taken
	// effect all the same: look before repeating a write.
	Transient Class = "transient"
	// Unauthorised: no token could be had, or it was refused: the App's key,
	// its installation or its permissions need a person.
	Unauthorised Class = "unauthorised"
	// Forbidden: the App may not do this here (permissions, a ruleset).
	Forbidden Class = "forbidden"
	// NotFound: what was asked for is not there, or not visible to the App.
	NotFound Class = "not_found"
	// Invalid: GitHub refused the content of the request (422).
	Invalid Class = "invalid"
	// Stale: the branch is not where the request expected it to be.
	Stale Class = "stale"
)

// Sentinels for errors.Is.
var (
	// ErrNotFound matches every error of class NotFound.
	ErrNotFound = errors.New("ghapp: not found")
	// ErrStale matches every error of class Stale.
	ErrStale = errors.New("ghapp: branch moved")
	// ErrExists: what was to be created is already there.
	ErrExists = errors.New("ghapp: already exists")
	// ErrUnverified: GitHub did not sign the commit.
	ErrUnverified = errors.New("ghapp: commit is not signed by GitHub")
	// ErrTreeMismatch: a commit's tree is not the tree that was meant.
	ErrTreeMismatch = errors.New("ghapp: commit has another tree")
)

// secondaryPause is how long to stay away after a secondary rate limit that
// names no time. GitHub: "wait for at least one minute".
const secondaryPause = time.Minute

const (
	headerRemaining = "X-Ratelimit-Remaining"
	headerReset     = "X-Ratelimit-Reset"
)

// Error is a refusal by GitHub, or a call that did not get through.
type Error struct {
	// Op is what was tried: "create commit".
	Op string
	// Status is the HTTP status, 0 where there was no answer.
	Status int
	// Message is GitHub's own text, one line. It is outside text: escape it
	// before showing it.
	Message string
	Class   Class
	// RetryAfter is set for RateLimited.
	RetryAfter time.Duration
	// RequestID is GitHub's id of the request, for support.
	RequestID string
	Err       error
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Status != 0 {
		fmt.Fprintf(&b, ": %d", e.Status)
	}
	switch {
	case e.Message != "":
		b.WriteString(": " + e.Message)
	case e.Err != nil:
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrNotFound) and errors.Is(err, ErrStale) work by
// class.
func (e *Error) Is(target error) bool {
	return target == ErrNotFound && e.Class == NotFound || target == ErrStale && e.Class == Stale
}

// Classify says what err asks of the caller, and for RateLimited how long to
// stay away. An ended context counts as Transient: the call may or may not
// have taken effect. A nil or foreign error is Permanent.
func Classify(err error) (Class, time.Duration) {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class, e.RetryAfter
	}
	switch {
	case errors.Is(err, ErrNotFound):
		return NotFound, 0
	case errors.Is(err, ErrStale):
		return Stale, 0
	case isNetwork(err):
		return Transient, 0
	default:
		return Permanent, 0
	}
}

func isNetwork(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	_, ok := errors.AsType[net.Error](err)
	return ok
}

// Refused says whether err is GitHub's word that the App may not write what it
// wanted to, by its permissions, a ruleset or a protected branch: something that
// a person has to change.
func Refused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	lower := strings.ToLower(e.Message)
	return e.Class == Forbidden || (e.Class == Invalid || e.Class == Permanent) &&
		(strings.Contains(lower, "rule violation") || strings.Contains(lower, "gh013") || strings.Contains(lower, "gh006") ||
			strings.Contains(lower, "protected branch"))
}

// ActionsRefused says whether err is GitHub's word that jobs of GitHub Actions
// may open no pull requests in the repository: a setting of its own, which no
// permission of the job's token takes the place of.
func ActionsRefused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Class == Forbidden && strings.Contains(strings.ToLower(e.Message),
		"not permitted to create or approve pull requests")
}

// wrap turns an error of go-github into an *Error.
func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		// From our own transport, inside a *url.Error that repeats the address.
		return &Error{
			Op: op + ": " + e.Op, Status: e.Status, Message: e.Message, Class: e.Class, RetryAfter: e.RetryAfter,
			RequestID: e.RequestID, Err: e.Err,
		}
	}
	if e, ok := errors.AsType[*github.RateLimitError](err); ok {
		out := fromResponse(op, e.Response, e.Message)
		// go-github also makes this error up, without any header, to spare a
		// call that would be refused.
		out.Class, out.RetryAfter = RateLimited, untilReset(e.Rate.Reset.Time)
		return out
	}
	if e, ok := errors.AsType[*github.AbuseRateLimitError](err); ok {
		out := fromResponse(op, e.Response, e.Message)
		out.Class, out.RetryAfter = RateLimited, secondaryPause
		if e.RetryAfter != nil {
			out.RetryAfter = max(*e.RetryAfter, 0)
		}
		return out
	}
	if e, ok := errors.AsType[*github.ErrorResponse](err); ok {
		parts := []string{e.Message}
		for _, detail := range e.Errors {
			switch {
			case detail.Message != "":
				parts = append(parts, detail.Message)
			case detail.Field != "" || detail.Code != "":
				parts = append(parts, strings.TrimSpace(detail.Field+" "+detail.Code))
			}
		}
		return fromResponse(op, e.Response, strings.Join(parts, "; "))
	}
	class := Permanent
	if isNetwork(err) {
		class = Transient
	}
	return &Error{Op: op, Class: class, Err: err}
}

// fromResponse classifies an answer that is not a success.
func fromResponse(op string, resp *http.Response, message string) *Error {
	e := &Error{Op: op, Message: oneLine(message), Class: Permanent}
	if resp == nil {
		e.Class = Transient
		return e
	}
	e.Status = resp.StatusCode
	e.RequestID = resp.Header.Get("X-Github-Request-Id")
	if limited, wait := rateLimit(resp, message); limited {
		e.Class, e.RetryAfter = RateLimited, wait
		return e
	}
	switch {
	case e.Status == http.StatusUnauthorized:
		e.Class = Unauthorised
	case e.Status == http.StatusForbidden:
		e.Class = Forbidden
	case e.Status == http.StatusNotFound || e.Status == http.StatusGone:
		e.Class = NotFound
	case e.Status == http.StatusUnprocessableEntity:
		e.Class = Invalid
	case e.Status == http.StatusRequestTimeout || e.Status >= http.StatusInternalServerError:
		e.Class = Transient
	}
	return e
}

// rateLimit recognises the primary and the secondary limit in any answer, with
// or without headers. go-github v60 knows neither 429 nor GraphQL.
func rateLimit(resp *http.Response, message string) (bool, time.Duration) {
	switch resp.StatusCode {
	case http.StatusForbidden, http.StatusTooManyRequests, http.StatusOK:
	default:
		return false, 0
	}
	lower := strings.ToLower(message)
	spoken := strings.Contains(lower, "rate limit") || strings.Contains(lower, "abuse detection")
	exhausted := resp.Header.Get(headerRemaining) == "0"
	retry := resp.Header.Get("Retry-After")
	if resp.StatusCode != http.StatusTooManyRequests && !spoken &&
		(resp.StatusCode == http.StatusOK || !exhausted && retry == "") {
		return false, 0
	}
	if seconds, err := strconv.Atoi(retry); err == nil && seconds >= 0 {
		return true, time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(retry); err == nil {
		return true, untilReset(at)
	}
	if reset, err := strconv.ParseInt(resp.Header.Get(headerReset), 10, 64); err == nil && exhausted {
		return true, untilReset(time.Unix(reset, 0))
	}
	return true, secondaryPause
}

// untilReset adds a second: GitHub's reset times are whole seconds.
func untilReset(at time.Time) time.Duration {
	return max(time.Until(at)+time.Second, time.Second)
}

// messageOf reads GitHub's {"message": …} from an answer that is not a success.
func messageOf(body []byte) string {
	var answer struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &answer) == nil {
		return answer.Message
	}
	return ""
}

// oneLine keeps an error on one line and in bounds: the text comes from the
// outside.
func oneLine(s string) string {
	const limit = 500
	return strs.Cut(strs.OneLine(strings.ToValidUTF8(s, "�")), limit)
}

// Failed says whether err is that GitHub failed or did not answer: nobody here is to blame.
func Failed(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Class == Transient && (e.Status == 0 || e.Status >= http.StatusInternalServerError)
}
