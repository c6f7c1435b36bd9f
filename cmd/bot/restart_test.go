package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/run"
)

// A restart is how keys are replaced and limits changed: GitHub takes neither the old private
// key nor the old webhook secret any more when the server comes back. The run that was under
// way goes on, and what was asked for meanwhile is done, within the new limits.
func TestRestartTakesNewKeysAndLimits(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	landed := make(chan struct{}, 1)
	s := st.serveWith(func(ev run.Event) {
		if ev.Kind == run.EventTaskDone && ev.TaskID == "T1" {
			landed <- struct{}{}
		}
	})
	first := st.label("Say hello to everybody", threeTasks)
	<-landed
	s.stop()

	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	const secret = "new-webhook-secret-2718281828"
	if err := errors.Join(st.sim.SetKey(st.app.ID, text),
		st.sim.SetHook(st.app.ID, st.hookURL+handlers.DefaultPath, secret)); err != nil {
		t.Fatal(err)
	}
	st.sim.ExpireTokens()
	second := st.label("Say more", threeTasks)
	if err := st.sim.WaitIdle(t.Context()); err != nil { // GitHub has found nobody there
		t.Fatal(err)
	}
	st.config.GitHub.PrivateKey, st.config.GitHub.WebhookSecrets = config.Secret(text), []config.Secret{secret}
	st.config.Limits.MaxIterations = 1

	s = st.serve()
	if state := st.ended(s.store, first); state.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	st.complete(first, wantSubjects[:3]...)
	if state := st.ended(s.store, second); state.End != run.EndMaxIterations {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(s)
	s.stop()
	st.checkWorld()
}
