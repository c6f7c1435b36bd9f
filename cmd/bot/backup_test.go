//go:build unix

package main

import (
	"archive/tar"
	"compress/gzip"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
)

// outside is what people see of the run of an issue.
type outside struct {
	Commits, Comments, Labels, Checks []string
	Reactions, PRs                    int
	Draft                             bool
}

func (st *stage) outside(n int) outside {
	st.t.Helper()
	issue := st.issue(n)
	prs, err := st.sim.PRs(person, repoOf)
	if err != nil {
		st.t.Fatal(err)
	}
	o := outside{Labels: slices.Sorted(slices.Values(issue.Labels)), Reactions: len(issue.Reactions), PRs: len(prs)}
	for _, c := range issue.Comments {
		o.Comments = append(o.Comments, c.Body)
	}
	for _, pr := range prs {
		o.Commits, o.Draft = append(o.Commits, subjects(pr.Commits)...), o.Draft || pr.Draft
		o.Comments = append(o.Comments, st.said(pr.Number)...)
	}
	o.Checks, _ = st.checks()
	return o
}

// keptAt runs a server and keeps a backup of it at each event, until the run ends or
// stop says so. It gives the backups in order.
func (st *stage) keptAt(begin func() ghsim.Issue, stop func(run.Event) bool) (issue ghsim.Issue, kept []string) {
	st.t.Helper()
	var mu sync.Mutex
	over := false
	s := st.serveWith(func(ev run.Event) {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		name := filepath.Join(st.dir, fmt.Sprintf("%02d-%s.tar.gz", len(kept), ev.Kind))
		f, err := os.Create(name)
		if err != nil {
			st.t.Error(err)
			return
		}
		if err := writeBackup(st.t.Context(), f, st.config.DataDir); err != nil {
			st.t.Error(err)
		}
		if err := f.Close(); err != nil {
			st.t.Error(err)
		}
		kept, over = append(kept, name), stop(ev)
	})
	issue = begin()
	st.await("the last backup", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return over
	})
	if !st.t.Failed() && stop(run.Event{Kind: run.EventRunEnded}) {
		st.ended(s.store, issue)
		st.processed(s)
	}
	s.stop()
	return issue, kept
}

// TestRestoredBackup: whenever the backup was made, a server that is restored from it
// does nothing again that it did after the backup.
func TestRestoredBackup(t *testing.T) {
	t.Parallel()
	begin := func(st *stage) func() ghsim.Issue {
		return func() ghsim.Issue { return st.label("Say hello to everybody", threeTasks) }
	}
	restored := func(st *stage, n int, backup string) *serving {
		st.config.DataDir = mkdir(st.t, filepath.Join(st.dir, fmt.Sprintf("r%d", n)))
		if _, open, err := readBackup(st.t.Context(), backup, st.config.DataDir); err != nil || open != 1 {
			st.t.Fatalf("%s: %d open runs, %v", filepath.Base(backup), open, err)
		}
		return st.serve()
	}
	t.Run("of a run that has ended since", func(t *testing.T) {
		t.Parallel()
		st := newStage(t, setting{script: writesAll})
		issue, kept := st.keptAt(begin(st), func(ev run.Event) bool { return ev.Kind == run.EventRunEnded })
		want := st.outside(issue.Number)
		if diff := cmp.Diff(wantSubjects, want.Commits); diff != "" || len(kept) < 10 {
			t.Fatalf("%d backups of %s", len(kept), diff)
		}
		for _, n := range []int{0, len(kept) / 3, 2 * len(kept) / 3, len(kept) - 1} {
			s := restored(st, n, kept[n])
			if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete {
				t.Errorf("%s: ended %s: %s", filepath.Base(kept[n]), state.End, state.EndDetail)
			}
			st.processed(s)
			s.stop()
			if diff := cmp.Diff(want, st.outside(issue.Number)); diff != "" {
				t.Errorf("%s: %s", filepath.Base(kept[n]), diff)
			}
		}
	})
	t.Run("of a server that is lost with two tasks landed", func(t *testing.T) {
		t.Parallel()
		st := newStage(t, setting{script: writesAll})
		issue, kept := st.keptAt(begin(st), func(ev run.Event) bool { return ev.Kind == run.EventTaskDone && ev.Done == 2 })
		s := restored(st, 0, kept[len(kept)/2])
		if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete {
			t.Errorf("ended %s: %s", state.End, state.EndDetail)
		}
		st.processed(s)
		s.stop()
		got := st.outside(issue.Number)
		if diff := cmp.Diff(wantSubjects, got.Commits); diff != "" || got.PRs != 1 || got.Reactions != 1 || got.Draft {
			t.Errorf("%+v %s", got, diff)
		}
	})
}

// TestBackupCommands plays an operator: a backup of a server that runs, and a restore
// where something is in the way, and where nothing is.
func TestBackupCommands(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	conf := st.writeConfig()
	s := st.serve()
	issue := st.label("Say hello to everybody", threeTasks)
	st.ended(s.store, issue)
	file := filepath.Join(st.dir, "kept.tar.gz")
	says := func(code int, want string, args ...string) {
		t.Helper()
		if got, out := st.bot(append(args, "--config", conf)...); got != code || !strings.Contains(out, want) {
			t.Errorf("%v: exit code %d, %q", args, got, out)
		}
	}
	says(0, "Wrote "+file+". Keep ralph.yaml and the App's private key as well", "backup", file)
	says(run.ExitUsage, "", "backup", file) // it does not write over another
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	says(run.ExitUsage, "", "restore", file) // the data directory is in use
	st.processed(s)
	s.stop()
	says(0, "The database is known to be restored.", "restore")
	if err := os.Rename(st.config.DataDir, st.config.DataDir+".old"); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]map[string]string{
		"no database": {manifestFile: "{}"}, "no backup": {"x": "y"},
		"newer":     {manifestFile: `{"format": 99, "version": "9"}`, config.DatabaseFile: "x"},
		"a way out": {manifestFile: "{}", "../evil": "x"}, "no such file": {manifestFile: "{}", "run-token.key": "x"},
	} {
		bad := filepath.Join(st.dir, "bad.tar.gz")
		writeTar(t, bad, content)
		t.Log(name)
		says(run.ExitUsage, "", "restore", bad)
	}
	other := filepath.Join(st.dir, "other.tar.gz")
	writeTar(t, other, map[string]string{manifestFile: `{"version": "9"}`, config.DatabaseFile: otherDatabase(t)})
	says(run.ExitUsage, "", "restore", other)
	if err := os.WriteFile(filepath.Join(st.dir, "half.tar.gz"), halfOf(t, file), 0o600); err != nil {
		t.Fatal(err)
	}
	says(run.ExitUsage, "", "restore", filepath.Join(st.dir, "half.tar.gz"))
	if left, err := os.ReadDir(st.config.DataDir); err != nil || len(left) != 0 {
		t.Errorf("refused restores left %v, %v", left, err)
	}
	says(run.ExitUsage, "", "restore") // there is no database to be known as restored
	says(0, "Restored the backup of ", "restore", file)
	s = st.serve()
	if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	was, is := "", ""
	for dir, to := range map[string]*string{st.config.DataDir + ".old": &was, st.config.DataDir: &is} {
		b, err := os.ReadFile(filepath.Join(dir, analyticsFile))
		if err != nil {
			t.Fatal(err)
		}
		*to = string(b)
	}
	if was != is {
		t.Errorf("the record of what happened has %d bytes, %d before", len(is), len(was))
	}
}

// otherDatabase is a database with other tables than those of this program.
func otherDatabase(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), config.DatabaseFile)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "PRAGMA user_version = 99")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestManifestOfABackupIsBounded: what says of a backup what it is, is not read into memory
// however large it is.
func TestManifestOfABackupIsBounded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "large.tar.gz")
	writeTar(t, file, map[string]string{manifestFile: `{"version": "` + strings.Repeat("x", maxManifest) + `"}`, config.DatabaseFile: "x"})
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := unpackBackup(f, t.TempDir()); err == nil || !strings.Contains(err.Error(), "its backup.json cannot be read") {
		t.Errorf("it is taken: %v", err)
	}
}

// writeTar writes a gzipped tar archive with the manifest first.
func writeTar(t *testing.T, file string, content map[string]string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	packed := gzip.NewWriter(f)
	w := tar.NewWriter(packed)
	names := slices.Sorted(maps.Keys(content))
	if i := slices.Index(names, manifestFile); i > 0 {
		names = append([]string{manifestFile}, slices.Delete(names, i, i+1)...)
	}
	for _, name := range names {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content[name])); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []interface{ Close() error }{w, packed, f} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func halfOf(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b[:len(b)/2]
}
