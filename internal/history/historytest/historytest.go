// Package historytest holds what every memory of lessons must do.
package historytest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/org/ralph-action/internal/history"
)

// Run tests the memory that open makes; each call of open gives an empty one.
func Run(t *testing.T, open func(t *testing.T) history.Memory) {
	t.Helper()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	lesson := func(key, title string, worked bool) history.Lesson {
		at = at.Add(time.Minute)
		return history.Lesson{
			Key: key, Run: "r1", TaskID: "T1", At: at, Title: title, Worked: worked, Iterations: 2, CostUSD: 0.5,
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
			out = append(out, l.Key)
		}
		return out
	}

	t.Run("empty", func(t *testing.T) {
		if got := similar(t, open(t), "Serialise the report", 3); len(got) != 0 {
			t.Errorf("an empty memory knows %v", got)
		}
	})
	t.Run("finds tasks that are alike, the most alike first", func(t *testing.T) {
		m := open(t)
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
		m := open(t)
		want := lesson("a", "Serialise the report", false)
		want.Failure, want.Approach = "test", "a second encoder"
		remember(t, m, want)
		if diff := cmp.Diff([]history.Lesson{want}, similar(t, m, "Serialise the report", 5)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("the same key twice is one lesson", func(t *testing.T) {
		m := open(t)
		remember(t, m, lesson("a", "Serialise the report", false), lesson("b", "Serialise the table", true))
		again := lesson("a", "Serialise the report", true)
		remember(t, m, again, again)
		got := similar(t, m, "Serialise the report", 5)
		if len(got) != 2 || got[0].Key != "a" || !got[0].Worked {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("hostile text", func(t *testing.T) {
		m := open(t)
		for i, title := range []string{`"; DROP TABLE lessons; --`, `report" OR "x`, "report NEAR(x y) * ^ : {a b}", "\x00\xff report", strings.Repeat("report ", 10000)} {
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
		m := open(t)
		for i := range history.MaxLessons + 50 {
			remember(t, m, lesson(fmt.Sprint(i), "Serialise the report", true))
		}
		got := similar(t, m, "Serialise the report", 2*history.MaxLessons)
		if len(got) > history.MaxLessons || len(got) == 0 || got[0].Key != fmt.Sprint(history.MaxLessons+49) {
			t.Errorf("%d lessons, the first is %v", len(got), got[:min(1, len(got))])
		}
	})
}
