package host_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
)

// branched is a source whose default branch stays where it was.
type branched struct {
	source
	def gitrepo.OID
}

func (b branched) Locate(ctx context.Context, s loop.State) (host.Location, error) {
	at, err := b.source.Locate(ctx, s)
	at.Default = b.def
	return at, err
}

// commit makes the repository's next commit of the files; nil removes one.
func (b branched) commit(t *testing.T, files map[string]string, remove ...string) {
	t.Helper()
	put(t, b.repo.Top(), files)
	for _, name := range remove {
		if err := os.Remove(filepath.Join(b.repo.Top(), name)); err != nil {
			t.Fatal(err)
		}
	}
	commit(t, b.repo.Top())
}

// agents starts agents on one work tree, each as another process of the host would.
type agents struct {
	t     *testing.T
	cfg   host.Config
	state loop.State
	next  int
	told  []string
}

func newAgents(t *testing.T, src host.Source, backend agent.Backend) *agents {
	t.Helper()
	a := &agents{t: t}
	a.cfg = host.Config{
		Dir: filepath.Join(t.TempDir(), "run"), Source: src, Sandbox: &box{ended: make(chan struct{})}, Backend: backend,
		Limits: func(asked run.Limits) run.Limits { return asked },
		Emit:   func(ev run.Event) { a.told = append(a.told, ev.Text) },
	}
	opened, err := a.host().Open(t.Context(), loop.State{})
	if err != nil {
		t.Fatal(err)
	}
	a.state = loop.State{Request: loop.Request{Run: "r1"}, Checkout: loop.Checkout{HeadTree: opened.HeadTree, BaseTree: opened.BaseTree}}
	return a
}

func (a *agents) host() *host.Host { return host.New(a.cfg) }

func (a *agents) tree() string { return filepath.Join(a.cfg.Dir, "work", "tree") }

// start starts an agent and gives what steers it.
func (a *agents) start() map[string]string {
	a.t.Helper()
	a.next++
	_, err := a.host().StartAgent(a.t.Context(), a.state, agentStart("r1-"+string(rune('0'+a.next))))
	if err != nil {
		a.t.Fatal(err)
	}
	got := map[string]string{}
	for name, content := range tree(a.t, a.tree()) {
		if !strings.HasPrefix(name, ".git/") && !strings.HasPrefix(name, ".ralph/") {
			got[name] = content
		}
	}
	return got
}

// changes are what agents did to the tree of the branch, progress.md left out.
func (a *agents) changes() []string {
	a.t.Helper()
	h := a.host()
	snap, _, err := h.Snapshot(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	diff, err := h.Changes(a.t.Context(), a.state.HeadTree, snap)
	if err != nil {
		a.t.Fatal(err)
	}
	var got []string
	for _, c := range diff {
		if !strings.HasPrefix(c.Path, ".ralph/") {
			got = append(got, c.Status+" "+c.Path)
		}
	}
	return got
}

// TestAgentsAreSteeredByTheDefaultBranch: whatever the branch, an earlier agent
// or an ignored file says; and what was put there for the agent is no change of
// its own.
func TestAgentsAreSteeredByTheDefaultBranch(t *testing.T) {
	t.Parallel()
	src := branched{source: newSource(t, map[string]string{
		"CLAUDE.md": "good\n", "web/AGENTS.md": "good\n", ".gitignore": "*.local.json\ndeps/\n", "main.go": "one\n",
	})}
	_, src.def, _ = src.repo.Head(t.Context())
	src.commit(t, map[string]string{
		"CLAUDE.md": "evil\n", ".claude/settings.json": "evil\n", "GEMINI.md": "evil\n", "main.go": "two\n",
	}, "web/AGENTS.md")
	a := newAgents(t, src, talker{})

	given := map[string]string{
		"CLAUDE.md": "good\n", "web/AGENTS.md": "good\n", ".gitignore": "*.local.json\ndeps/\n", "main.go": "two\n",
	}
	if diff := cmp.Diff(given, a.start()); diff != "" {
		t.Error(diff)
	}
	if got := a.changes(); got != nil {
		t.Errorf("changes before the agent did anything: %v", got)
	}
	if diff := cmp.Diff([]string{
		"agents get these files from the default branch, not from this one: .claude/settings.json, CLAUDE.md, GEMINI.md, web/AGENTS.md",
	}, a.told); diff != "" {
		t.Error(diff)
	}

	// What an agent changes is its change, whichever version it began from.
	put(t, a.tree(), map[string]string{
		"main.go": "three\n", "CLAUDE.md": "worse\n", ".codex/config.toml": "worse\n", ".claude/x.local.json": "ignored\n",
		"deps/lib/AGENTS.md": "ignored\n", "deps/lib/lib.go": "kept\n",
	})
	if diff := cmp.Diff([]string{"A .codex/config.toml", "M CLAUDE.md", "M main.go"}, a.changes()); diff != "" {
		t.Error(diff)
	}

	// It ended without being judged: the next goes on with its work, and is not
	// steered by it.
	given["main.go"], given["deps/lib/lib.go"] = "three\n", "kept\n"
	if diff := cmp.Diff(given, a.start()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"M main.go"}, a.changes()); diff != "" {
		t.Error(diff)
	}

	// Put back, the tree is that of the branch.
	if err := a.host().Reset(t.Context(), a.state.HeadTree); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, a.tree()); got["CLAUDE.md"] != "evil\n" || got["GEMINI.md"] != "evil\n" {
		t.Errorf("after a reset: %v", got)
	}
	if got := a.changes(); got != nil {
		t.Errorf("changes after a reset: %v", got)
	}

	// Another version of what steers may have landed meanwhile, or none.
	given["main.go"] = "two\n"
	delete(given, "deps/lib/lib.go")
	for _, landed := range []map[string]string{{}, {"CLAUDE.md": "worst\n", "AGENTS.md": "new\n"}} {
		put(t, a.tree(), landed)
		snap, _, err := a.host().Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a.state.HeadTree = snap
		for range 2 {
			if diff := cmp.Diff(given, a.start()); diff != "" {
				t.Errorf("after %v: %s", landed, diff)
			}
		}
		if err := a.host().Reset(t.Context(), a.state.HeadTree); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPinningIsCutOff anywhere: what is on disk then, the branch's version or
// the default branch's, is still no change of an agent's.
func TestPinningIsCutOff(t *testing.T) {
	t.Parallel()
	src := branched{source: newSource(t, map[string]string{"CLAUDE.md": "good\n", "AGENTS.md": "good\n"})}
	_, src.def, _ = src.repo.Head(t.Context())
	src.commit(t, map[string]string{"CLAUDE.md": "evil\n", "AGENTS.md": "evil\n"})
	a := newAgents(t, src, talker{})
	a.start()
	put(t, a.tree(), map[string]string{"AGENTS.md": "evil\n"}) // as it was before
	if got := a.changes(); got != nil {
		t.Errorf("half laid out: %v", got)
	}
	if got := a.start(); got["AGENTS.md"] != "good\n" || got["CLAUDE.md"] != "good\n" {
		t.Errorf("begun again: %v", got)
	}
	if got := a.changes(); got != nil {
		t.Errorf("begun again: %v", got)
	}
}

// hiding is an agent that must not find some files.
type hiding struct{ talker }

func (hiding) About() agent.About {
	return agent.About{Hides: []string{".opencode", "opencode.json", "absent"}}
}

// TestHiddenFromTheAgent: what an agent's command line would run is not there for
// it, stays in the branch, and cannot be put there for the next one.
func TestHiddenFromTheAgent(t *testing.T) {
	t.Parallel()
	src := branched{
		source: newSource(t, map[string]string{
			".opencode/plugin/p.js": "run me\n", "opencode.json": "{}\n", "main.go": "one\n",
		}),
	}
	_, src.def, _ = src.repo.Head(t.Context())
	a := newAgents(t, src, hiding{})
	for range 2 {
		if diff := cmp.Diff(map[string]string{"main.go": "one\n"}, a.start()); diff != "" {
			t.Error(diff)
		}
		if got := a.changes(); got != nil {
			t.Errorf("changes before the agent did anything: %v", got)
		}
		put(t, a.tree(), map[string]string{".opencode/plugin/q.js": "run me, too\n"})
		if diff := cmp.Diff([]string{"A .opencode/plugin/q.js"}, a.changes()); diff != "" {
			t.Error(diff)
		}
	}
}
