package podshim

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
)

// Key is what the bot and the shim of one start know, and nobody else does.
type Key [32]byte

// What the shim says first on each connection: whether it wants the key.
const (
	wantsKey = 'n'
	hasKey   = 'k'
)

// the ends of a connection.
const (
	botEnd  = "bot"
	shimEnd = "shim"
)

var errStranger = errors.New("the other end does not know the key of this start")

// Secure makes the bot's end of a connection. give says whether the key may still be
// handed over: not when the command may have begun, which could listen then.
func Secure(rw io.ReadWriter, key Key, give bool) (*tls.Config, error) {
	var first [1]byte
	if _, err := io.ReadFull(rw, first[:]); err != nil {
		return nil, fmt.Errorf("wait for the shim: %w", err)
	}
	switch {
	case first[0] == hasKey:
	case first[0] == wantsKey && give:
		if _, err := rw.Write(key[:]); err != nil {
			return nil, fmt.Errorf("hand over the key: %w", err)
		}
	default:
		return nil, errStranger
	}
	return key.config(botEnd, shimEnd)
}

// config is that of the TLS of one end.
func (k Key) config(own, other string) (*tls.Config, error) {
	private := k.private(own)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	want, _ := k.private(other).Public().(ed25519.PublicKey)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: private}},
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{"h2"},
		ClientAuth:   tls.RequireAnyClientCert,
		// There is one key to be believed, and no name.
		InsecureSkipVerify: true, // #nosec G402 -- VerifyConnection does it
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) != 1 || !want.Equal(state.PeerCertificates[0].PublicKey) {
				return errStranger
			}
			return nil
		},
	}, nil
}

func (k Key) private(end string) ed25519.PrivateKey {
	seed := sha256.Sum256(append([]byte(end), k[:]...))
	return ed25519.NewKeyFromSeed(seed[:])
}
