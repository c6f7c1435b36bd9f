package blob

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/org/ralph-action/internal/run"
)

const (
	keySize = 32
	idSize  = 8
)

// Keys encrypt and decrypt: the first one both, the others only decrypt.
type Keys []key

type key struct {
	// id tells keys apart and says nothing of them.
	id   [idSize]byte
	aead cipher.AEAD
}

// ParseKeys reads keys as `openssl rand -base64 32` prints them. Errors do not show them.
func ParseKeys(texts ...string) (Keys, error) {
	var keys Keys
	for i, text := range texts {
		secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
		if err != nil || len(secret) != keySize {
			return nil, &run.UserError{
				Message: fmt.Sprintf("the encryption key %d is not %d bytes in base64", i+1, keySize),
				Hint:    "make one with: openssl rand -base64 32",
			}
		}
		block, err := aes.NewCipher(secret)
		if err != nil {
			return nil, fmt.Errorf("encryption key %d: %w", i+1, err)
		}
		k := key{}
		if k.aead, err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, fmt.Errorf("encryption key %d: %w", i+1, err)
		}
		sum := sha256.Sum256(append([]byte("ralph-bot: id of a key for files\x00"), secret...))
		copy(k.id[:], sum[:])
		keys = append(keys, k)
	}
	return keys, nil
}

// find gives the key with that id.
func (k Keys) find(id []byte) (cipher.AEAD, error) {
	for _, key := range k {
		if string(key.id[:]) == string(id) {
			return key.aead, nil
		}
	}
	message := "it is encrypted with another key than those of the configuration"
	if len(k) == 0 {
		message = "it is encrypted, and the configuration has no key"
	}
	return nil, &run.UserError{
		Message: message + " (the id of its key is " + hex.EncodeToString(id) + ")",
		Hint:    "put the old key back, below the new one, into the file of files.encryption_key_file",
	}
}
