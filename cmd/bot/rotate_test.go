//go:build unix

package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
)

// freshKey is a private key that GitHub does not know yet.
func freshKey(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

// mounted are secrets in files that change all at once: the names are links to what is below a
// directory that is replaced as a whole.
type mounted struct {
	t   *testing.T
	dir string
	n   int
}

// mount puts the secrets of the stage's configuration into files.
func (st *stage) mount(t *testing.T) *mounted {
	t.Helper()
	m := &mounted{t: t, dir: mkdir(t, filepath.Join(st.dir, "secrets"))}
	values := map[string]string{
		"app.pem": st.config.GitHub.PrivateKey.Reveal(), "hook": st.config.GitHub.WebhookSecrets[0].Reveal(),
		"model": st.config.Model.APIKey.Reveal(),
	}
	m.replace(values)
	for name, file := range map[string]string{
		config.EnvPrivateKey: "app.pem", config.EnvWebhookSecret: "hook", config.EnvAPIKey: "model",
	} {
		if values[file] != "" {
			st.config.SecretFiles = append(st.config.SecretFiles, config.SecretFile{
				Name: name, Key: name + "_FILE", Path: filepath.Join(m.dir, file),
			})
		}
	}
	slices.SortFunc(st.config.SecretFiles, func(a, b config.SecretFile) int { return strings.Compare(a.Name, b.Name) })
	return m
}

// replace has the files hold these secrets, all at once.
func (m *mounted) replace(values map[string]string) {
	m.t.Helper()
	m.n++
	version := strings.Repeat("v", m.n)
	dir := mkdir(m.t, filepath.Join(m.dir, version))
	var err error
	for name, value := range values {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(value+"\n"), 0o600))
		if _, there := os.Lstat(filepath.Join(m.dir, name)); there != nil {
			err = errors.Join(err, os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)))
		}
	}
	next := filepath.Join(m.dir, "..next")
	if err = errors.Join(err, os.Symlink(version, next), os.Rename(next, filepath.Join(m.dir, "..data"))); err != nil {
		m.t.Fatal(err)
	}
}

// GitHub gets a new private key and a new webhook secret while a run is under way, and takes
// neither of the old ones any more. The run goes on, no webhook is refused for good, and none
// of all secrets is in the log.
func TestSecretsAreReplacedWhileARunGoesOn(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll, change: func(c *config.Server) { c.Model.APIKey = tellsKey }})
	files := st.mount(t)
	old := serverSecrets(st.config)
	const secret, model = "new-webhook-secret-2718281828", "new-key-of-the-model-1618033988"
	key := freshKey(t)
	log := &lines{}
	now := newCurrent(st.config)
	s := st.serveKeeping(newLogger(config.Log{Level: "debug", Format: "json"}, maskedWriter{log, now.secrets.mask}), now,
		func(ev run.Event) {
			if ev.Kind != run.EventTaskDone || ev.TaskID != "T1" || files.n > 1 {
				return
			}
			if err := errors.Join(st.sim.SetKeys(st.app.ID, []byte(key)),
				st.sim.SetHook(st.app.ID, st.hookURL+handlers.DefaultPath, secret)); err != nil {
				t.Error(err)
			}
			st.sim.ExpireTokens()
			files.replace(map[string]string{"app.pem": key, "hook": secret, "model": model})
		})
	first := st.label("Say hello to everybody", threeTasks)
	if state := st.ended(s.store, first); state.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.complete(first, wantSubjects[:3]...)
	st.processed(s)
	second := st.label("Say more", threeTasks)
	if state := st.ended(s.store, second); state.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(s)
	deliveries, err := st.sim.Deliveries(st.app.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deliveries {
		if d.StatusCode != http.StatusAccepted {
			t.Errorf("%s.%s was answered with %d", d.Event, d.Action, d.StatusCode)
		}
	}
	if got := credentials(now.secrets)(config.EnvAPIKey); got != model {
		t.Error("agents get the old key of the model")
	}
	s.log.Info().Strs("planted", append(old, secret, model, key)).Msg("a line that was never meant to be")
	s.stop()
	known := redact.NewKnown(append(old, secret, model, key)...)
	if found := known.FindKnown(t.Context(), []byte(log.text())); len(found) > 0 {
		t.Errorf("%d secrets are in the log, the first in line %d", len(found), found[0].Line)
	}
	if n := strings.Count(log.text(), "read secrets again"); n != 1 || !strings.Contains(log.text(), config.EnvPrivateKey) {
		t.Errorf("the log tells of %d changes:\n%s", n, log.text())
	}
	st.checkWorld()
}

// Where GitHub refuses the key before another is there, the run waits for it.
func TestRunWaitsForANewKey(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	files := st.mount(t)
	key := freshKey(t)
	refused := make(chan struct{}, 1)
	s := st.serveKeeping(zerolog.Nop(), newCurrent(st.config), func(ev run.Event) {
		if ev.Kind != run.EventTaskDone || ev.TaskID != "T1" {
			return
		}
		if err := st.sim.SetKeys(st.app.ID, []byte(key)); err != nil {
			t.Error(err)
		}
		st.sim.ExpireTokens()
		refused <- struct{}{}
	})
	issue := st.label("Say hello to everybody", threeTasks)
	<-refused
	st.await("a key to be refused twice", func() bool {
		n := 0
		for _, c := range st.sim.Calls() {
			if c.Status == http.StatusUnauthorized && strings.HasSuffix(c.Path, "/access_tokens") {
				n++
			}
		}
		return n > 1
	})
	files.replace(map[string]string{"app.pem": key, "hook": st.app.WebhookSecret})
	if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.complete(issue, wantSubjects[:3]...)
	s.stop()
	st.checkWorld()
}

// A webhook that is signed with a secret of a moment ago is taken, without a reload; what
// `reload` reads it names; and a key that cannot be used changes nothing, is told by `reload`
// and by `doctor`.
func TestReloadReadsSecrets(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	files := st.mount(t)
	op := st.operator()
	p := st.command(theProgram(t), "serve", "--config", op.file)
	environment := func() []string {
		env := slices.DeleteFunc(slices.Clone(p.cmd.Env), func(kv string) bool {
			return strings.HasPrefix(kv, config.EnvPrivateKey+"=") || strings.HasPrefix(kv, config.EnvWebhookSecret+"=")
		})
		return append(env, config.EnvPrivateKey+"_FILE="+filepath.Join(files.dir, "app.pem"),
			config.EnvWebhookSecret+"_FILE="+filepath.Join(files.dir, "hook"))
	}
	p.cmd.Env = environment()
	st.startCommand(p)
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.cmd.Wait()
	})
	st.waitHealthy(p)
	st.hook(p.addr)

	key := st.config.GitHub.PrivateKey.Reveal()
	files.replace(map[string]string{"app.pem": key, "hook": "new-webhook-secret-1, " + st.app.WebhookSecret})
	const latest = "new-webhook-secret-2"
	for _, secret := range []string{"new-webhook-secret-1", st.app.WebhookSecret} {
		st.app.WebhookSecret = secret
		if status := st.send("ping", "guid-of-"+secret, map[string]any{"zen": secret}); status != http.StatusAccepted {
			t.Errorf("signed with %s: %d", secret, status)
		}
	}
	files.replace(map[string]string{"app.pem": key, "hook": latest})
	var got reloaded
	op.reads(&got, "reload")
	if diff := cmp.Diff(reloaded{Changed: []string{config.EnvWebhookSecret}, Kept: []string{}}, got); diff != "" {
		t.Error(diff)
	}
	if status := st.send("ping", "guid-of-the-old", map[string]any{"zen": "old"}); status != http.StatusUnauthorized {
		t.Errorf("a secret that is in no file any more: %d", status)
	}

	files.replace(map[string]string{"app.pem": key[:len(key)/2], "hook": latest})
	if code, _ := st.bot("reload", "--config", op.file); code != run.ExitUsage {
		t.Errorf("half of a key gives %d", code)
	}
	doctor := st.command(theProgram(t), "doctor", "--config", op.file)
	doctor.cmd.Env = environment()
	if out, err := doctor.cmd.Output(); err == nil || !strings.Contains(string(out), "private key cannot be used") {
		t.Errorf("doctor says of half of a key: %v\n%s", err, out)
	}
	st.sim.ExpireTokens()
	if err := st.sim.SetHook(st.app.ID, st.hookURL+handlers.DefaultPath, latest); err != nil {
		t.Fatal(err)
	}
	issue := st.label("Say hello to everybody", threeTasks)
	st.await("the end of the run", func() bool {
		var all []serverRun
		op.reads(&all, "runs")
		return slices.ContainsFunc(all, func(r serverRun) bool {
			return r.Issue == issue.Number && r.End == string(run.EndAllTasksComplete)
		})
	})
}

// Files are looked at once a minute. Of one that cannot be used the log says so once, and what
// was in it before holds; so it does for a user that does not take it.
func TestSlowLookAtSecrets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write := func(name, text string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg := config.DefaultServer()
		cfg.Model.APIKey = "first-key-of-the-model"
		cfg.GitHub.WebhookSecrets = []config.Secret{"first-secret"}
		cfg.Notify.Targets = []config.NotifyTarget{{Name: "team", URL: "slack://first"}}
		for name, file := range map[string]string{
			config.EnvAPIKey: "model", config.EnvWebhookSecret: "hook", config.EnvNotifyURL + "TEAM": "team",
		} {
			cfg.SecretFiles = append(cfg.SecretFiles, config.SecretFile{Name: name, Key: file, Path: filepath.Join(dir, file)})
		}
		write("model", "first-key-of-the-model\n")
		write("hook", "first-secret\n")
		write("team", "slack://first")
		log := &lines{}
		k := newSecrets(cfg)
		var told atomic.Int32
		k.serve(zerolog.New(log), func(cfg config.Server) error {
			told.Add(1)
			if cfg.GitHub.WebhookSecrets[0] == "not-this-one" {
				return errors.New("refused")
			}
			return nil
		})
		defer k.keepLooking(t.Context())()
		minute := func(wantTold int32, wantKey, wantSecret, wantURL string) {
			t.Helper()
			<-time.After(lookEvery) // by the clock of the bubble
			synctest.Wait()
			now := k.now()
			got := []string{now.Model.APIKey.Reveal(), now.GitHub.WebhookSecrets[0].Reveal(), now.Notify.Targets[0].URL.Reveal()}
			if diff := cmp.Diff([]string{wantKey, wantSecret, wantURL}, got); diff != "" || told.Load() != wantTold {
				t.Errorf("told %d times, want %d: %s", told.Load(), wantTold, diff)
			}
		}
		minute(0, "first-key-of-the-model", "first-secret", "slack://first")
		write("model", "second-key-of-the-model")
		write("team", "slack://second")
		minute(2, "second-key-of-the-model", "first-secret", "slack://second")
		write("model", " \n")
		write("hook", "not-this-one")
		minute(3, "second-key-of-the-model", "first-secret", "slack://second")
		minute(4, "second-key-of-the-model", "first-secret", "slack://second")
		for _, secret := range []string{config.EnvAPIKey, config.EnvWebhookSecret} {
			if n := strings.Count(log.text(), secret+" stays as it was"); n != 1 {
				t.Errorf("of %s the log says %d times that it stays:\n%s", secret, n, log.text())
			}
		}
		write("hook", "second-secret")
		minute(5, "second-key-of-the-model", "second-secret", "slack://second")
		write("hook", "not-this-one")
		minute(6, "second-key-of-the-model", "second-secret", "slack://second")
		if n := strings.Count(log.text(), "stays as it was"); n != 3 {
			t.Errorf("the log does not say it again after the file was right:\n%s", log.text())
		}
		if got := k.mask.Mask("first-key-of-the-model, second-key-of-the-model and not-this-one"); got != "***, *** and ***" {
			t.Errorf("masked to %q", got)
		}
	})
}

// tellsKey is what the agent of tellAll says wherever it can.
const tellsKey = "key-of-the-model-3141592653"

// tellAll works an issue with an agent that says the model's key, and stops the server.
func (st *stage) tellAll(t *testing.T) {
	t.Helper()
	s := st.serve()
	if state := st.ended(s.store, st.label("Say hello to everybody", "- [ ] Write one\n- [ ] Write two\n")); state.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.processed(s)
	s.stop()
}

// holdsNoSecret looks for the server's secrets in a dump of its database, and for what looks
// like a token or a private key.
func (st *stage) holdsNoSecret(t *testing.T, dump []byte) {
	t.Helper()
	found := redact.NewKnown(serverSecrets(st.config)...).FindKnown(t.Context(), dump)
	found = append(found, slices.DeleteFunc(redact.Find(t.Context(), dump), func(s redact.Secret) bool {
		return s.Rule != "github_token" && s.Rule != "private_key" && s.Rule != "json_web_token"
	})...)
	for _, secret := range found {
		t.Errorf("a %s is in the database, in line %d", secret.Rule, secret.Line)
	}
	// The search finds what is there.
	if found := redact.NewKnown("Say hello to everybody").FindKnown(t.Context(), dump); len(found) == 0 {
		t.Error("not even the issue's title is in the database")
	}
}

// TestNoSecretIsInTheDatabase: neither in its file nor in what is beside it.
func TestNoSecretIsInTheDatabase(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: tells(tellsKey), change: func(c *config.Server) { c.Model.APIKey = tellsKey }})
	st.tellAll(t)
	var dump []byte
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(st.config.Database() + suffix)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		dump = append(dump, b...)
	}
	st.holdsNoSecret(t, dump)
}
