package gitrepo

import (
	"crypto/sha1" // #nosec G505 -- git's object names are SHA-1
	"encoding/hex"
	"fmt"
	"io"
)

// OID names an object: 40 lower-case hexadecimal digits.
type OID string

// noOID stands for "no object" on git's command line, and emptyTree is the tree of nothing.
const (
	noOID     OID = "0000000000000000000000000000000000000000"
	emptyTree OID = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
)

// parseOID validates what git answered.
func parseOID(s string) (OID, error) {
	if !OID(s).Valid() {
		return "", fmt.Errorf("%s is not an object name", quote(s))
	}
	return OID(s), nil
}

// Valid says whether o has the form of an object name.
func (o OID) Valid() bool {
	if len(o) != 2*sha1.Size {
		return false
	}
	for i := range len(o) {
		if c := o[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// blobName is the name that git gives a blob of so many bytes. Fewer of them are an error.
func blobName(r io.Reader, size int64) (OID, error) {
	h := sha1.New() // #nosec G401
	_, _ = fmt.Fprintf(h, "blob %d\x00", size)
	if _, err := io.CopyN(h, r, size); err != nil {
		return "", err
	}
	return OID(hex.EncodeToString(h.Sum(nil))), nil
}
