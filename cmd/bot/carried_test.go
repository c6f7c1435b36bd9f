//go:build postgres

package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store/pgtest"
)

// onDisk is what is left of transcripts in a data directory.
func onDisk(t testing.TB, data string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(transcriptsDir(data), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return names
}

// carried checks that nothing of the transcripts of the only run is left in these data
// directories, and that all of it is told by a command that has none of them.
func (st *stage) carried(dirs ...string) {
	st.t.Helper()
	for _, data := range dirs {
		if left := onDisk(st.t, data); len(left) > 0 {
			st.t.Errorf("left on the disk: %v", left)
		}
	}
	st.config.DataDir = mkdir(st.t, filepath.Join(st.dir, "empty"))
	code, out := st.bot("transcript", "--config", st.writeConfig())
	id, calls, _ := strings.Cut(strings.TrimSpace(out), "  ")
	if code != 0 || id == "" || strings.Contains(calls, "\n") {
		st.t.Fatalf("%d: %s", code, out)
	}
	code, out = st.bot("transcript", "--config", st.writeConfig(), id)
	for _, want := range []string{"→ task.done T1", "→ task.done T2", "→ task.done T3", "→ run.ended"} {
		if code != 0 || strings.Count(out, want) != 1 {
			st.t.Errorf("%d: %s; want %q once", code, out, want)
		}
	}
}

// TestTranscriptsOutliveTheMachine: what agents said on a machine that is gone is read from
// another one, beside what they said there.
func TestTranscriptsOutliveTheMachine(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll, change: onPostgres(pgtest.URL(t))})
	landed := make(chan struct{}, 100)
	s := st.serveWith(func(ev run.Event) {
		if ev.Kind == run.EventTaskDone {
			landed <- struct{}{}
		}
	})
	issue := st.label("Say hello to everybody", threeTasks)
	<-landed
	s.stop()
	first := st.config.DataDir
	st.config.DataDir = filepath.Join(st.dir, "other")
	s = st.serve()
	st.finish(s, issue)
	st.carried(first, st.config.DataDir)
}
