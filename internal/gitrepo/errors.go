package gitrepo

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that callers decide on.
var (
	// ErrNotFound: there is no such ref, object or path.
	ErrNotFound = errors.New("not found")
	// ErrStale: the ref is not where the caller thought it was.
	ErrStale = errors.New("the ref has moved")
	// ErrTooLarge: the content is larger than the caller's limit.
	ErrTooLarge = errors.New("larger than the limit")
	// ErrUnavailable: the remote does not answer, or fails.
	ErrUnavailable = errors.New("the remote does not answer")
	// ErrUnauthorized: the remote wants a credential, or refused the one given.
	ErrUnauthorized = errors.New("the remote refused the credential")
)

// ConflictError says that the person's checkout could not be advanced because
// these files hold changes of their own. No file was touched.
type ConflictError struct {
	Paths []string
	Err   error
}

// Error implements error.
func (e *ConflictError) Error() string {
	const most = 5
	shown := quote(strings.Join(e.Paths[:min(most, len(e.Paths))], ", "))
	if more := len(e.Paths) - most; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return "the checkout has changes that would be lost: " + shown
}

// Unwrap gives git's own words.
func (e *ConflictError) Unwrap() error { return e.Err }
