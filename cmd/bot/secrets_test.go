package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/agent/transcript"
	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
)

// lines is a log that a test reads.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// tells is a script whose agent says a secret wherever it can say something.
func tells(secret string) string {
	return `model: scripted
tasks:
  one: [{misbehave: nothing, say: "the key is ` + secret + `"}, {files: {one.txt: "1\n"}, say: "it is ` + secret + ` indeed", use: [{tool: Bash, command: "echo ` + secret + `"}]}]
  two: [{files: {two.txt: "` + secret + `\n"}, say: "in a file"}, {files: {two.txt: "2\n"}, learn: "the key is ` + secret + `"}, {files: {two.txt: "2\n"}}]
`
}

// Attack E5, at the App: an agent that knows a secret of the server says it
// wherever an agent can say something. It is in nothing that people see on
// GitHub, in no log, no record and no transcript; and what shows is there all the
// same.
func TestE5AgentSaysASecretEverywhere(t *testing.T) {
	t.Parallel()
	const key = "key-of-the-model-3141592653"
	log := &lines{}
	st := newStage(t, setting{script: tells(key), change: func(c *config.Server) { c.Model.APIKey = key }})
	s := st.serveLogging(newLogger(config.Log{Level: "debug", Format: "json"}, maskedWriter{log, serverMask(st.config)}))
	s.log.Info().Str("planted", key).Msg("a line that was never meant to be")
	state := st.ended(s.store, st.label("Say hello to everybody", "- [ ] Write one\n- [ ] Write two\n"))
	if state.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", state.End, state.EndDetail)
	}
	st.await("the check run of the end", func() bool { _, head := st.checks(); return head.Status == "completed" })
	s.stop()

	seen, names := st.everythingSeen(state)
	seen["the log"] = log.text()
	if len(names) < state.Iteration {
		t.Fatalf("%d transcripts of %d iterations", len(names), state.Iteration)
	}
	for where, text := range seen {
		if strings.Contains(text, key) {
			t.Errorf("the key stands in %s:\n%.2000s", where, text)
		}
	}
	st.databaseHoldsNoSecret(state)
	_, head := st.checks()
	for where, want := range map[string]string{
		"the log": "a line that was never meant to be", "transcript " + names[0]: "the key is ***",
		fmt.Sprint("check run ", head.ID): "The end of the last agent's output",
	} {
		if !strings.Contains(seen[where], want) {
			t.Errorf("%s does not say %q:\n%.2000s", where, want, seen[where])
		}
	}
}

// everythingSeen is what people see on GitHub of the one pull request and of its issue, and what the server keeps
// of the run in files; and the names of its transcripts.
func (st *stage) everythingSeen(state loop.State) (seen map[string]string, transcripts []string) {
	st.t.Helper()
	must := func(err error) {
		st.t.Helper()
		if err != nil {
			st.t.Fatal(err)
		}
	}
	pr := st.onlyPR()
	seen = map[string]string{"the description": pr.Title + pr.Body}
	for _, c := range pr.Commits {
		seen["commit "+c.OID] = c.Subject + "\n\n" + c.Body
	}
	all, err := st.sim.CheckRuns(person, repoOf)
	must(err)
	for _, c := range all {
		seen[fmt.Sprint("check run ", c.ID)] = c.Title + "\n" + c.Summary + "\n" + c.Text
	}
	for i, c := range append(st.said(1), st.said(pr.Number)...) {
		seen[fmt.Sprint("comment ", i)] = c
	}
	for name, content := range st.contents(pr.Head) {
		seen["file "+name] = content
	}
	kept := transcript.Open(transcriptsDir(st.config.DataDir), nil)
	transcripts, err = kept.Starts(state.Run)
	must(err)
	for _, name := range transcripts {
		tr, err := kept.Load(state.Run, name)
		must(err)
		var b strings.Builder
		for _, part := range []string{transcript.PromptPart, transcript.StdoutPart, transcript.StderrPart} {
			must(copyPart(&b, tr, part))
		}
		must(tr.Write(&b, parserOf, nil))
		must(tr.Close())
		seen["transcript "+name] = b.String()
	}
	must(filepath.WalkDir(st.config.DataDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "kept" || strings.Contains(path, "/transcripts/") {
			return err
		}
		b, err := os.ReadFile(path) // #nosec G304 G122 -- of the test
		seen[path] = string(b)
		return err
	}))
	return seen, transcripts
}

// databaseHoldsNoSecret looks for the server's secrets, and for what looks like a token or a
// private key, in the files of the database and in the state of a run, which is packed there.
func (st *stage) databaseHoldsNoSecret(state loop.State) {
	st.t.Helper()
	dump, err := loop.Encode(state)
	if err != nil {
		st.t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(st.config.Database() + suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			st.t.Fatal(err)
		}
		dump = append(dump, b...)
	}
	found := redact.NewKnown(serverSecrets(st.config)...).FindKnown(st.t.Context(), dump)
	looks, _ := new(redact.Search).Find(st.t.Context(), dump)
	found = append(found, slices.DeleteFunc(looks, func(s redact.Secret) bool {
		return s.Rule != "github_token" && s.Rule != "private_key" && s.Rule != "json_web_token"
	})...)
	for _, secret := range found {
		st.t.Errorf("a %s is in the database, in line %d", secret.Rule, secret.Line)
	}
	// The search finds what is there.
	if found := redact.NewKnown("Say hello to everybody").FindKnown(st.t.Context(), dump); len(found) == 0 {
		st.t.Error("not even the issue's title is in the database")
	}
}

// TestGatedLocalAgentsHoldNoKey: where bubblewrap is required the gateway holds the
// credential, as for containers; elsewhere the agent does.
func TestGatedLocalAgentsHoldNoKey(t *testing.T) {
	t.Parallel()
	for isolation, gated := range map[string]bool{"bwrap": true, "auto": false, "none": false} {
		cfg := config.DefaultServer()
		cfg.DataDir, cfg.Model.APIKey = t.TempDir(), "key-of-the-model"
		cfg.Sandbox.Kind, cfg.Sandbox.LocalIsolation = config.SandboxLocal, isolation
		backend, err := agent.Lookup(config.AgentClaude, agentOptions(cfg, ""))
		if err != nil {
			t.Fatal(err)
		}
		models, err := serverModels(cfg, backend, nil)
		if err != nil {
			t.Fatal(err)
		}
		if (models != nil) != gated || (credentials(cfg) == nil) != gated {
			t.Errorf("%s: gateway %v, credentials of the agent %v", isolation, models != nil, credentials(cfg) != nil)
		}
	}
}

// TestSecretFiles are those of every variable that names one.
func TestSecretFiles(t *testing.T) {
	t.Parallel()
	got := secretFiles([]string{
		"RALPH_PRIVATE_KEY_FILE=/etc/app.pem", "SSL_CERT_FILE=/etc/ssl/ca.pem",
		"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE=/etc/ssl/ca.pem", "OTHER_FILE=relative", "FILE=/x", "HOME=/root",
	})
	if len(got) != 1 || got[0] != "/etc/app.pem" {
		t.Errorf("%q", got)
	}
}
