package gitrepo

import (
	"crypto/sha1" // #nosec G505 -- git's object names are SHA-1 unless the repository says otherwise
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
)

// OID names an object: 40 lower-case hexadecimal digits, or 64 in a repository
// of the SHA-256 format.
type OID string

// ParseOID validates s.
func ParseOID(s string) (OID, error) {
	if !OID(s).Valid() {
		return "", fmt.Errorf("%s is not an object name", quote(s))
	}
	return OID(s), nil
}

// Valid says whether o has the form of an object name.
func (o OID) Valid() bool {
	if len(o) != 40 && len(o) != 64 {
		return false
	}
	for i := range len(o) {
		if c := o[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// appendRaw appends the binary form of a valid name.
func (o OID) appendRaw(buf []byte) []byte {
	buf, _ = hex.AppendDecode(buf, []byte(o)) // a valid one is
	return buf
}

// algo is the hash function of a repository.
type algo struct {
	name string
	size int
	new  func() hash.Hash
}

func sha1Algo() algo   { return algo{"sha1", sha1.Size, sha1.New} }
func sha256Algo() algo { return algo{"sha256", sha256.Size, sha256.New} }

func algoByName(name string) (algo, error) {
	switch name {
	case "sha1":
		return sha1Algo(), nil
	case "sha256":
		return sha256Algo(), nil
	default:
		return algo{}, fmt.Errorf("unknown object format %s", quote(name))
	}
}

// zero stands for "no object" on git's command line.
func (a algo) zero() OID {
	b := make([]byte, 2*a.size)
	for i := range b {
		b[i] = '0'
	}
	return OID(b)
}

func (a algo) owns(o OID) bool { return o.Valid() && len(o) == 2*a.size }

// objectHeader is what git hashes and stores before the content.
func objectHeader(kind string, size int64) []byte {
	b := make([]byte, 0, 32)
	b = append(b, kind...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, size, 10)
	return append(b, 0)
}

// sum names the object of the given kind and content.
func (a algo) sum(kind string, data []byte) OID {
	h := a.new()
	_, _ = h.Write(objectHeader(kind, int64(len(data)))) // a hash never fails
	_, _ = h.Write(data)
	return OID(hex.EncodeToString(h.Sum(nil)))
}
