package store_test

import (
	"testing"

	"github.com/org/ralph-action/internal/history"
	"github.com/org/ralph-action/internal/history/historytest"
)

func TestLessons(t *testing.T) {
	t.Parallel()
	historytest.Run(t, func(t *testing.T) history.Memory { return fresh(t).Lessons("R_1") })
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
