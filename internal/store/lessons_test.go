package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/history"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// mergedMemory recalls the lessons of run r1 as if all its work had been merged.
type mergedMemory struct {
	history.Memory

	st *store.Store
}

func (m mergedMemory) Similar(ctx context.Context, q history.Query, n int) ([]history.Lesson, error) {
	if err := m.st.MergeLessons(ctx, "R_1", "r1"); err != nil {
		return nil, err
	}
	return m.Memory.Similar(ctx, q, n)
}

// What a run taught is told to nobody before a person has merged its work.
func TestLessonsOnlyOfMergedWork(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	m := st.Lessons("R_1")
	pull := aRun("r2", 7)
	pull.RepoNode, pull.PullNumber = "R_1", 12
	createRun(t, st, pull)
	for _, id := range []run.ID{"r1", "r2", "r22"} {
		l := history.Lesson{Key: string(id) + "/T1", Run: id, Title: "Serialise the report of " + string(id), Worked: true}
		if err := m.Remember(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	told := func() (runs []run.ID) {
		t.Helper()
		found, err := m.Similar(t.Context(), history.Query{Title: "Serialise the report"}, 5)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range found {
			runs = append(runs, l.Run)
		}
		return runs
	}
	if got := told(); len(got) > 0 {
		t.Errorf("before anything was merged %v are told", got)
	}
	for _, other := range []struct {
		repo string
		pull int
	}{{"R_1", 13}, {"R_2", 12}, {"R_1", 0}} {
		err := st.InTx(t.Context(), func(tx *store.Tx) error {
			return st.MergeLessonsOfPull(t.Context(), tx, other.repo, other.pull)
		})
		if err != nil || len(told()) > 0 {
			t.Errorf("%+v was merged, and %v are told, %v", other, told(), err)
		}
	}
	err := st.InTx(t.Context(), func(tx *store.Tx) error { return st.MergeLessonsOfPull(t.Context(), tx, "R_1", 12) })
	if got := told(); err != nil || !slices.Equal(got, []run.ID{"r2"}) {
		t.Errorf("the pull request of r2 was merged, and %v are told, %v", got, err)
	}
	if err := st.MergeLessons(t.Context(), "R_1", "r1"); err != nil {
		t.Fatal(err)
	}
	left, err := st.UnmergedLessons(t.Context(), "R_1", 5)
	if got := told(); err != nil || len(got) != 2 || len(left) != 1 || left[0].Run != "r22" {
		t.Errorf("r1 was merged, too, and %v are told; left is %v, %v", got, left, err)
	}
}

func TestLessons(t *testing.T) {
	t.Parallel()
	memory := func(t *testing.T) history.Memory {
		st := fresh(t)
		return mergedMemory{st.Lessons("R_1"), st}
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	lesson := func(key, title string, worked bool) history.Lesson {
		at = at.Add(time.Minute)
		return history.Lesson{
			Key: "r1/" + key, Run: "r1", TaskID: "T1", At: at, Title: title, Worked: worked, Iterations: 2, CostUSD: 0.5,
			Insight: "the encoder flushes late", Files: []string{"internal/report/json.go"},
		}
	}
	remember := func(t *testing.T, m history.Memory, lessons ...history.Lesson) {
		t.Helper()
		for _, l := range lessons {
			if err := m.Remember(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
	}
	similar := func(t *testing.T, m history.Memory, title string, n int) []history.Lesson {
		t.Helper()
		got, err := m.Similar(t.Context(), history.Query{Title: title}, n)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	keys := func(lessons []history.Lesson) (out []string) {
		for _, l := range lessons {
			out = append(out, strings.TrimPrefix(l.Key, "r1/"))
		}
		return out
	}

	t.Run("empty", func(t *testing.T) {
		if got := similar(t, memory(t), "Serialise the report", 3); len(got) != 0 {
			t.Errorf("an empty memory knows %v", got)
		}
	})
	t.Run("finds tasks that are alike, the most alike first", func(t *testing.T) {
		m := memory(t)
		remember(t, m,
			lesson("a", "Serialise the report as JSON", true),
			lesson("b", "Rename the login page", true),
			lesson("c", "Write the JSON report to a file", false),
			lesson("d", "Bump the version of the compiler", true))
		if diff := cmp.Diff([]string{"a", "c"}, keys(similar(t, m, "Serialising JSON reports", 5))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := similar(t, m, "Serialising JSON reports", 1); len(got) != 1 {
			t.Errorf("asked for one, got %v", keys(got))
		}
		if got := similar(t, m, "Translate the manual into Welsh", 5); len(got) != 0 {
			t.Errorf("nothing is alike, got %v", keys(got))
		}
		if got := similar(t, m, "the of and", 5); len(got) != 0 {
			t.Errorf("no word to look for, got %v", keys(got))
		}
	})
	t.Run("comes back as it was", func(t *testing.T) {
		m := memory(t)
		want := lesson("a", "Serialise the report", false)
		want.Failure, want.Approach = "test", "a second encoder"
		remember(t, m, want)
		if diff := cmp.Diff([]history.Lesson{want}, similar(t, m, "Serialise the report", 5)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("the same key twice is one lesson", func(t *testing.T) {
		m := memory(t)
		remember(t, m, lesson("a", "Serialise the report", false), lesson("b", "Serialise the table", true))
		again := lesson("a", "Serialise the report", true)
		remember(t, m, again, again)
		got := similar(t, m, "Serialise the report", 5)
		if len(got) != 2 || got[0].Key != "r1/a" || !got[0].Worked {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("hostile text", func(t *testing.T) {
		m := memory(t)
		for i, title := range []string{
			`"; DROP TABLE lessons; --`, `report" OR "x`, "report NEAR(x y) * ^ : {a b}", "\x00\xff report",
			strings.Repeat("report ", 10000),
		} {
			remember(t, m, lesson(fmt.Sprint(i), title, true))
			similar(t, m, title, 5)
		}
		for _, l := range similar(t, m, "report", 50) {
			if len(l.Title) > 1000 || strings.ContainsAny(l.Title, "\n\x00") {
				t.Errorf("kept %.50q", l.Title)
			}
		}
	})
	t.Run("the oldest go", func(t *testing.T) {
		m := memory(t)
		for i := range history.MaxLessons + 50 {
			remember(t, m, lesson(fmt.Sprint(i), "Serialise the report", true))
		}
		got := similar(t, m, "Serialise the report", 2*history.MaxLessons)
		if len(got) > history.MaxLessons || len(got) == 0 || got[0].Key != fmt.Sprintf("r1/%d", history.MaxLessons+49) {
			t.Errorf("%d lessons, the first is %v", len(got), got[:min(1, len(got))])
		}
	})
}

func TestARepositoryIsKnownByTheNameOfItsNewestRun(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	older, newer := aRun("r-1", 1), aRun("r-2", 1)
	newer.RepoNode, newer.CreatedAt = "R_new", older.CreatedAt.Add(time.Hour)
	createRun(t, st, newer)
	createRun(t, st, older)
	if node, err := st.RepoNode(t.Context(), strings.ToUpper(newer.RepoOwner), newer.RepoName); err != nil ||
		node != "R_new" {
		t.Errorf("%q, %v", node, err)
	}
	if node, err := st.RepoNode(t.Context(), newer.RepoOwner, "other"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%q, %v", node, err)
	}
}

func TestLessonsStayWithTheirRepository(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	if err := st.Lessons("R_1").Remember(t.Context(),
		history.Lesson{Key: "a", Title: "Serialise the report"}); err != nil {
		t.Fatal(err)
	}
	got, err := st.Lessons("R_2").Similar(t.Context(), history.Query{Title: "Serialise the report"}, 5)
	if err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	for repo, want := range map[string]int{"R_1": 1, "R_2": 0} {
		all, err := st.AllLessons(t.Context(), repo)
		if err != nil || len(all) != want {
			t.Errorf("%s: %v, %v", repo, all, err)
		}
	}
}
