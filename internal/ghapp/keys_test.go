package ghapp_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/run"
)

// Of several keys the one that GitHub takes is found by trying, and tried first from then on.
func TestSeveralPrivateKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gone, held := newKey(t), w.appInfo.PrivateKeyPEM
	app := get[*ghapp.App](t)(ghapp.New(ghapp.Config{
		APIURL: w.URL() + "/api/v3/", AppID: w.appInfo.ID, PrivateKey: bytes.Join([][]byte{gone, held}, []byte("\n")),
	}))
	repo := app.Repo(w.in.ID, owner, name)
	statuses := func(do func()) (got []int) {
		t.Helper()
		before := len(w.Calls())
		do()
		for _, c := range w.Calls()[before:] {
			got = append(got, c.Status)
		}
		return got
	}
	permission := func() { get[ghapp.Permission](t)(repo.Permission(t.Context(), "mary")) }
	if diff := cmp.Diff([]int{401, 201, 200}, statuses(permission)); diff != "" {
		t.Errorf("the first token: %s", diff)
	}
	if diff := cmp.Diff([]int{200}, statuses(func() { get[ghapp.Identity](t)(app.Self(t.Context())) })); diff != "" {
		t.Errorf("the key that worked is not tried first: %s", diff)
	}
	// Its owner removes the key and makes another, which was in the file already.
	check(t, w.SetKeys(w.appInfo.ID, gone))
	w.ExpireTokens()
	if diff := cmp.Diff([]int{401, 401, 201, 304}, statuses(permission)); diff != "" {
		t.Errorf("after a change of keys: %s", diff)
	}
	taken, refused, err := app.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{{nameOf(t, gone)}, {nameOf(t, held)}}, [][]string{taken, refused}); diff != "" {
		t.Error(diff)
	}
}

// nameOf is what GitHub shows of a key: "SHA256:" and the hash of its public half.
func nameOf(t *testing.T, text []byte) string {
	t.Helper()
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(get[[]byte](t)(x509.MarshalPKIXPublicKey(key.Public())))
	return "SHA256:" + base64.StdEncoding.EncodeToString(sum[:])
}

// When GitHub refuses all keys, a key that has come meanwhile is taken for the same call.
func TestRenewedPrivateKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var app *ghapp.App
	fresh, looks := newKey(t), 0
	text := w.appInfo.PrivateKeyPEM
	app = get[*ghapp.App](t)(ghapp.New(ghapp.Config{
		APIURL: w.URL() + "/api/v3/", AppID: w.appInfo.ID, PrivateKey: w.appInfo.PrivateKeyPEM,
		Renew: func(context.Context) {
			looks++
			check(t, app.SetKeys(text))
		},
	}))
	repo := app.Repo(w.in.ID, owner, name)
	get[ghapp.Permission](t)(repo.Permission(t.Context(), "mary"))
	check(t, w.SetKeys(w.appInfo.ID, fresh))
	w.ExpireTokens()
	_, err := repo.Permission(t.Context(), "mary")
	if class := classOf(err); class != ghapp.Unauthorised || looks != 1 {
		t.Errorf("with nothing but the old key: %s after %d looks: %v", class, looks, err)
	}
	text = fresh
	get[ghapp.Permission](t)(repo.Permission(t.Context(), "mary"))
	if looks != 2 {
		t.Errorf("%d looks, want 2", looks)
	}
	get[ghapp.Identity](t)(app.Self(t.Context()))
}

// A text that is not all keys changes nothing.
func TestKeysThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.appInfo.PrivateKeyPEM
	cut := newKey(t)
	for what, text := range map[string][]byte{
		"nothing":              nil,
		"half of one":          cut[:len(cut)/2],
		"one, and half of one": append(bytes.Clone(key), cut[:len(cut)/2]...),
		"something else":       pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: []byte("a key of another kind")}),
	} {
		if _, ok := errors.AsType[*run.UserError](w.app.SetKeys(text)); !ok {
			t.Errorf("%s was taken", what)
		}
	}
	get[ghapp.Identity](t)(w.app.Self(t.Context()))
}
