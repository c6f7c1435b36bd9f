// Package ghsimtest serves a simulated GitHub to tests.
package ghsimtest

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/ghsim"
)

// Start serves a new GitHub for one test and closes it when the test ends.
func Start(t testing.TB, o ghsim.Options) *ghsim.Sim {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	sim, err := ghsim.New(o)
	if err != nil {
		t.Fatalf("ghsim: %v", err)
	}
	if _, err := sim.Start("127.0.0.1:0"); err != nil {
		t.Fatalf("ghsim: %v", err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if err := sim.Close(ctx); err != nil {
			t.Errorf("close ghsim: %v", err)
		}
	})
	return sim
}

// Key is an App's private key, made once for all tests of a process: making one takes a good part of a second.
var Key = sync.OnceValue(func() []byte {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(fmt.Sprintf("make a key: %v", err)) // the system has no randomness
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
})
