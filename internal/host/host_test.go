package host_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// source is a repository whose HEAD is the branch.
type source struct{ repo *gitrepo.Repo }

func (s source) Repo(context.Context) (*gitrepo.Repo, error) { return s.repo, nil }

func (s source) Locate(ctx context.Context, _ loop.State) (host.Location, error) {
	branch, head, err := s.repo.Head(ctx)
	if err != nil {
		return host.Location{}, err
	}
	conf, _, err := host.ReadConfig(ctx, s.repo, head, "")
	return host.Location{Repo: s.repo, Branch: branch, Base: head, Head: head, Default: head, Config: conf}, err
}

func newSource(t *testing.T, files map[string]string) source {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, files)
	commit(t, dir)
	path, err := proc.Look("git")
	if err != nil {
		t.Fatal(err)
	}
	git, err := gitrepo.New(path)
	if err != nil {
		t.Fatal(err)
	}
	repo, err := git.OpenLocal(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return source{repo}
}

// commit makes the next commit of a repository, which it makes where there is none.
func commit(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "-A", "-f"}, {"-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "-m", "next"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
}

func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func newHost(src source, dir string) *host.Host {
	return host.New(host.Config{
		Dir: dir, Source: src, Backend: talker{},
		Limits: func(asked run.Limits) run.Limits { return asked.WithDefaults(run.DefaultLimits()) },
	})
}

// tree lists the files below a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// agentStart is an agent with a prompt and an empty plan.
func agentStart(name string) loop.AgentStart {
	return loop.AgentStart{
		Name: name, Prompt: "work", ProgressPath: ".ralph/x/progress.md",
		Progress: progress.New("x", progress.Binding{Key: "k", PlanSHA256: strings.Repeat("0", 64)}),
	}
}

// open has the work tree of a run laid out.
func open(t *testing.T, h *host.Host) loop.Opened {
	t.Helper()
	o, err := h.Open(t.Context(), loop.State{})
	if err == nil {
		err = h.Reset(t.Context(), o.HeadTree)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestTheWorkTreeIsLaidOutWhenItIsNeeded: a run that waits for its place holds no files,
// and knows all the same what is on its branch. Another process lays out the same tree.
func TestTheWorkTreeIsLaidOutWhenItIsNeeded(t *testing.T) {
	t.Parallel()
	const file = ".ralph/1/progress.md"
	doc := progress.New("x", progress.Binding{Key: "plan:x"})
	files := map[string]string{"README": "hello\n", file: string(doc.Bytes()), ".ralph/folder/progress.md/x": "x\n"}
	src := newSource(t, files)
	dir := filepath.Join(t.TempDir(), "run")
	one := newHost(src, dir)
	o, err := one.Open(t.Context(), loop.State{})
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := one.Progress(t.Context(), o.HeadTree, file)
	if err != nil || got == nil || string(got.Bytes()) != files[file] {
		t.Errorf("read %v, %v", got, err)
	}
	for name, want := range map[string]string{
		".ralph/2/progress.md": "", ".ralph/folder/progress.md": ".ralph/folder/progress.md is no plain file",
		file + "/progress.md": file + " is no plain file",
	} {
		if got, unreadable, err := one.Progress(t.Context(), o.HeadTree, name); got != nil || unreadable != want || err != nil {
			t.Errorf("%s: %v, %q, %v, want %q", name, got, unreadable, err, want)
		}
	}
	if src, ok, err := one.File(t.Context(), o.HeadTree, "README", 100); err != nil || !ok || string(src) != "hello\n" {
		t.Errorf("README: %q, %v, %v", src, ok, err)
	}
	work := filepath.Join(dir, "work")
	if _, err := os.Lstat(work); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a work tree: %v", err)
	}
	// A process that died on the way has left some of it.
	put(t, filepath.Join(work, "tree"), map[string]string{"README": "hel"})
	two := newHost(src, dir)
	snapshot, _, err := two.Snapshot(t.Context())
	if err != nil || snapshot != o.HeadTree {
		t.Errorf("%s is laid out, want %s; %v", snapshot, o.HeadTree, err)
	}
	if diff := cmp.Diff(files, tree(t, filepath.Join(work, "tree"))); diff != "" {
		t.Error(diff)
	}
	// From then on it is what is in the directory, for every process.
	put(t, filepath.Join(work, "tree"), map[string]string{"README": "changed\n"})
	three := newHost(src, dir)
	if snapshot, _, err := three.Snapshot(t.Context()); err != nil || snapshot == o.HeadTree {
		t.Errorf("the work is gone: %s, %v", snapshot, err)
	}
}

// TestFilesThatAreTooLarge are for a person to fix, who is told which file and
// how much it may hold.
func TestFilesThatAreTooLarge(t *testing.T) {
	t.Parallel()
	for path, limit := range map[string]int{
		".github/ralph.yml": 32, ".ralph/PROMPT_plan.md": 16, ".ralph/PROMPT_debugger.md": 16,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			for _, tt := range []struct {
				size int
				want string
			}{
				{limit << 10, ""},
				{limit<<10 + 1, fmt.Sprintf("%s is not valid: it holds more than %d KiB", path, limit)},
			} {
				src := newSource(t, map[string]string{path: "#" + strings.Repeat(" ", tt.size-2) + "\n"})
				_, err := newHost(src, filepath.Join(t.TempDir(), "run")).Open(t.Context(), loop.State{})
				var got string
				if userErr, ok := errors.AsType[*run.UserError](err); ok {
					got = userErr.Message
				} else if err != nil {
					t.Errorf("%d bytes: not for a person: %v", tt.size, err)
				}
				if got != tt.want {
					t.Errorf("%d bytes: %q, want %q", tt.size, got, tt.want)
				}
			}
		})
	}
}

// TestRefusedAttemptsLeaveNothing: what attempts wrote is not in the repository, and
// neither is unfinished work, which a host of the same run finds; it goes with the run.
func TestRefusedAttemptsLeaveNothing(t *testing.T) {
	t.Parallel()
	src := newSource(t, map[string]string{"README": "hello\n"})
	dir := filepath.Join(t.TempDir(), "run")
	h := newHost(src, dir)
	opened, err := h.Open(t.Context(), loop.State{})
	if err != nil {
		t.Fatal(err)
	}
	objects := filepath.Join(src.repo.Top(), ".git", "objects")
	before := len(tree(t, objects))
	for attempt := range 3 {
		put(t, filepath.Join(dir, "work", "tree"), map[string]string{"junk": strings.Repeat("x", 1<<20) + fmt.Sprint(attempt)})
		if _, _, err := h.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := h.Reset(t.Context(), opened.HeadTree); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(tree(t, objects)) - before; n != 0 {
		t.Errorf("refused attempts left %d objects in the repository", n)
	}
	kept, err := h.With(t.Context(), opened.HeadTree, "half", []byte("half"))
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
	h = newHost(src, dir) // after a restart
	open(t, h)
	if there, err := h.Has(t.Context(), kept); err != nil || !there {
		t.Errorf("what was kept is there: %v, %v", there, err)
	}
	if there, err := h.Has(t.Context(), opened.HeadTree[:39]+"0"); err != nil || there {
		t.Errorf("a tree that nobody made is there: %v, %v", there, err)
	}
	if err := h.Reset(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, filepath.Join(dir, "work", "tree"))["half"]; got != "half" {
		t.Errorf("what was kept holds %q", got)
	}
	if err := h.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the run's directory is still there: %v", err)
	}
	if n := len(tree(t, objects)) - before; n != 0 {
		t.Errorf("unfinished work left %d objects in the repository", n)
	}
}

// TestWhatTheRunNeedsStays, whoever names it: the state or a work tree, of the run or of a
// lane.
func TestWhatTheRunNeedsStays(t *testing.T) {
	t.Parallel()
	src := newSource(t, map[string]string{"README": "hello\n"})
	dir := filepath.Join(t.TempDir(), "run")
	h := newHost(src, dir)
	opened := open(t, h)
	made := func(name string) string {
		tree, err := h.With(t.Context(), opened.HeadTree, name, []byte(name))
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	proposed, refused := made("proposed"), made("refused")
	put(t, filepath.Join(dir, "work", "tree"), map[string]string{"mine": "x"})
	mine, _, err := h.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lane, _ := h.Lane(2)
	lanes := made("lane")
	if err := lane.Reset(t.Context(), lanes); err != nil {
		t.Fatal(err)
	}
	repo, err := h.Repo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var s loop.State
	s.Proposal = &loop.Proposal{Tree: proposed}
	needed, err := h.Needed(s)
	if err == nil {
		err = repo.Tidy(t.Context(), needed)
	}
	if err != nil {
		t.Fatal(err)
	}
	for tree, want := range map[string]bool{opened.HeadTree: true, proposed: true, mine: true, lanes: true, refused: false} {
		if there, err := h.Has(t.Context(), tree); err != nil || there != want {
			t.Errorf("%s is there: %v, %v; want %v", tree, there, err, want)
		}
	}
}

// TestVacate: nothing of what agents wrote keeps a disk full, and the next process lays the tree out again.
func TestVacate(t *testing.T) {
	t.Parallel()
	src := newSource(t, map[string]string{"README": "hello\n"})
	dir := filepath.Join(t.TempDir(), "run")
	h := newHost(src, dir)
	o := open(t, h)
	put(t, host.TreeDir(dir), map[string]string{"big.bin": "much"})
	if err := h.Vacate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(host.TreeDir(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the work tree is there: %v", err)
	}
	next := newHost(src, dir)
	if _, _, err := next.Snapshot(t.Context()); !errors.Is(err, loop.ErrNoWorkTree) {
		t.Errorf("the next process is told %v", err)
	}
	open(t, next)
	if tree, _, err := next.Snapshot(t.Context()); err != nil || tree != o.HeadTree {
		t.Errorf("laid out as %s, %v; want %s", tree, err, o.HeadTree)
	}
}
