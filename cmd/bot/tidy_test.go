package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/run"
)

// age has the mirrors and the kept work trees below a data directory be unused for 15 days.
func age(t *testing.T, data string) {
	t.Helper()
	old := time.Now().Add(-15 * 24 * time.Hour)
	for _, pattern := range []string{"mirrors/*.git", "trees/*/*"} {
		found, err := filepath.Glob(filepath.Join(data, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What is old goes, and nothing that a run needs: not the mirror of a run that waits,
// nor its directory.
func TestTidyKeepsWhatRunsNeed(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: writesAll})
	s := st.serve()
	first := st.ended(s.store, st.label("Say hello", threeTasks))
	if first.End != run.EndAllTasksComplete {
		t.Fatalf("ended %s: %s", first.End, first.EndDetail)
	}
	st.processed(s)
	data := st.config.DataDir
	// A run that waits needs its mirror and its directory.
	st.script(hangsOnTwo)
	second := st.label("Say more", threeTasks)
	st.await("the second run's agent", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(s.events, func(ev run.Event) bool {
			return ev.Kind == run.EventAgentStarted && ev.TaskID == "T2" && ev.Run != first.Run
		})
	})
	if err := os.MkdirAll(filepath.Join(data, "runs", "r-of-nobody"), 0o700); err != nil {
		t.Fatal(err)
	}
	tidy := func() {
		t.Helper()
		age(t, data)
		if err := s.tidy(t.Context()); err != nil {
			t.Error(err)
		}
	}
	tidy()
	row, err := s.store.LatestRunByIssue(t.Context(), st.repo.NodeID, second.Number)
	if err != nil {
		t.Fatal(err)
	}
	mirrors := func() (found []string) {
		found, err := filepath.Glob(filepath.Join(data, "mirrors", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(found, func(path string) bool { return strings.HasSuffix(path, ".lock") })
	}
	if left := mirrors(); len(left) != 1 {
		t.Errorf("mirrors: %v", left)
	}
	left, err := os.ReadDir(filepath.Join(data, "runs"))
	if err != nil || len(left) != 1 || left[0].Name() != string(row.ID) {
		t.Errorf("directories: %v, %v", left, err)
	}
	st.comment(second.Number, person, "/ralph stop")
	st.ended(s.store, second)
	st.processed(s)
	tidy()
	if len(mirrors()) != 0 {
		t.Errorf("mirrors %v stay", mirrors())
	}
	// The next run has all it needs again.
	st.script(writesAll)
	if third := st.ended(s.store, st.label("Say it again", threeTasks)); third.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", third.End, third.EndDetail)
	}
}
