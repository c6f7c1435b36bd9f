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
func onDisk(t *testing.T, data string) (names []string) {
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

// onlyTranscripts is the one run that transcripts are of, by a command on a machine that has
// none of it on its disk.
func (st *stage) onlyTranscripts() (id, calls string) {
	st.t.Helper()
	st.config.DataDir = mkdir(st.t, filepath.Join(st.dir, "empty"))
	code, out := st.bot("transcript", "--config", st.writeConfig())
	id, calls, _ = strings.Cut(strings.TrimSpace(out), "  ")
	if code != 0 || id == "" || strings.Contains(calls, "\n") {
		st.t.Fatalf("%d: %s", code, out)
	}
	return id, calls
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
	for _, data := range []string{first, st.config.DataDir} {
		if left := onDisk(t, data); len(left) > 0 {
			t.Errorf("left on the disk: %v", left)
		}
	}
	id, calls := st.onlyTranscripts()
	if calls != "3 calls" && calls != "4 calls" { // the second may have been begun on the first machine
		t.Errorf("%s", calls)
	}
	code, out := st.bot("transcript", "--config", st.writeConfig(), id)
	for _, want := range []string{"T1 ", "T2 ", "T3 ", "→ task.done T1", "→ task.done T3", "→ run.ended"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%d: %s; want %q", code, out, want)
		}
	}
}
