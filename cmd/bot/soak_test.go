//go:build load

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// envSoak says for how long TestSoak works on issues; without it, for soakRounds rounds.
const envSoak = "RALPH_TEST_SOAK"

const (
	soakRounds = 4
	// soakIssues are labelled at once in each round, after which their runs are removed.
	soakIssues = 2
)

// usage is what a server takes of its machine.
type usage struct {
	goroutines, descriptors, files int
	heap, data                     int64
}

// taken measures this process and the data directory of its server.
func (st *stage) taken() (u usage) {
	st.t.Helper()
	runtime.GC()
	runtime.GC() // what the first one finalised
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.heap, u.goroutines = int64(m.HeapAlloc), runtime.NumGoroutine() // #nosec G115 -- small
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		st.t.Fatal(err)
	}
	u.descriptors = len(open)
	err = filepath.WalkDir(st.config.DataDir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		u.files++
		u.data += info.Size()
		return nil
	})
	if err != nil {
		st.t.Fatal(err)
	}
	return u
}

// alone waits until no process of this one's is left: git's end when nobody has asked them for a while.
func (st *stage) alone() {
	st.t.Helper()
	st.watchOthers() // their ends ring no bell
	st.await("all processes to end", func() bool {
		lists, err := filepath.Glob("/proc/self/task/*/children")
		if err != nil || len(lists) == 0 {
			st.t.Fatal(lists, err)
		}
		for _, list := range lists {
			if children, err := os.ReadFile(list); err == nil && len(children) > 0 {
				return false
			}
		}
		return true
	})
}

// TestSoak works on issues round after round, and removes their runs as it does once they are old. What
// the server takes of its machine stays as it was after the first runs were removed. It is not
// parallel: it measures this process.
func TestSoak(t *testing.T) {
	st := newStage(t, setting{script: "model: scripted\ndefault: [{files: {one.txt: \"1\\n\"}, say: done}]\n"})
	s := st.serve()
	until, rounds := time.Time{}, soakRounds
	if d, err := time.ParseDuration(os.Getenv(envSoak)); err == nil {
		until, rounds = time.Now().Add(d), 0
	}
	var first usage
	runs := 0
	for round := 0; round < rounds || time.Now().Before(until); round++ {
		var issues []ghsim.Issue
		runs += soakIssues
		for range soakIssues {
			issues = append(issues, st.label("Write one", "- [ ] Write one\n"))
		}
		for _, issue := range issues {
			if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete {
				t.Fatalf("ended %s: %s", state.End, state.EndDetail)
			}
		}
		st.processed(s)
		st.alone()
		// Only the removal sees a later time: GitHub's own clock stays, and its webhooks would be old.
		st.clock.pass(store.KeepRuns + 24*time.Hour)
		err := s.tidy(t.Context())
		st.clock.pass(-store.KeepRuns - 24*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if !until.IsZero() && round%10 == 0 {
			t.Logf("round %d: %+v", round, st.taken())
		}
		if round == 1 {
			first = st.taken()
		}
	}
	last := st.taken()
	t.Logf("%+v, then %+v", first, last)
	if n := last.goroutines - first.goroutines; n > 20 {
		var which strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&which, 1)
		t.Errorf("%d goroutines more:\n%s", n, which.String())
	}
	if n := last.descriptors - first.descriptors; n > 20 {
		t.Errorf("%d descriptors more", n)
	}
	// The simulated GitHub is in this process and forgets nothing, some 250 KB a run. In the
	// data directory it is the webhooks that label issues, 10 KB a run.
	for what, grew := range map[string][2]int64{
		"heap":           {last.heap - first.heap, 64<<20 + int64(runs)<<19},
		"data directory": {last.data - first.data, 16<<20 + int64(runs)<<15},
	} {
		if grew[0] > grew[1] {
			t.Errorf("after %d runs the %s is %d bytes larger, %d at most", runs, what, grew[0], grew[1])
		}
	}
	kept, err := s.store.RecentRuns(t.Context(), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) > 0 {
		t.Errorf("%d runs are kept for more than %s", len(kept), store.KeepRuns)
	}
}
