package plan

import (
	"errors"
	"strings"
)

// ErrPromise is why a text cannot be promised.
var ErrPromise = errors.New("a promise is one line of 1 to 80 bytes without < and >")

// CheckPromise says whether an agent can promise a text.
func CheckPromise(text string) error {
	if strings.TrimSpace(text) == "" || len(text) > maxPromise || strings.ContainsAny(text, "<>\r\n") {
		return ErrPromise
	}
	return nil
}

// maxPromise is the most that is read between the tags of a promise, in bytes; see prompt.ReadClaim.
const maxPromise = 80
