package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/history"
	"github.com/org/ralph-action/internal/history/historytest"
	"github.com/org/ralph-action/internal/store"
)

func TestLessons(t *testing.T) {
	t.Parallel()
	historytest.Run(t, func(t *testing.T) history.Memory { return fresh(t).Lessons("R_1") })
}

func TestARepositoryIsKnownByTheNameOfItsNewestRun(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	older, newer := aRun("r-1", 1), aRun("r-2", 1)
	newer.RepoNode, newer.CreatedAt = "R_new", older.CreatedAt.Add(time.Hour)
	createRun(t, st, newer)
	createRun(t, st, older)
	if node, err := st.RepoNode(t.Context(), strings.ToUpper(newer.RepoOwner), newer.RepoName); err != nil || node != "R_new" {
		t.Errorf("%q, %v", node, err)
	}
	if node, err := st.RepoNode(t.Context(), newer.RepoOwner, "other"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%q, %v", node, err)
	}
}

func TestLessonsStayWithTheirRepository(t *testing.T) {
	t.Parallel()
	st := fresh(t)
	if err := st.Lessons("R_1").Remember(t.Context(), history.Lesson{Key: "a", Title: "Serialise the report"}); err != nil {
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
