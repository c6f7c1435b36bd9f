package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/delivery"
	"github.com/org/ralph-action/internal/ghsim"
)

// decisions are the lines of a log about trust.
func decisions(t *testing.T, log string) (found []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if m[delivery.AuditKey] != nil {
			found = append(found, m)
		}
	}
	return found
}

// The log says who was refused and who approved, whatever its level.
func TestAuditHasARefusalAndAnApproval(t *testing.T) {
	t.Parallel()
	log := &lines{}
	st := newStage(t, setting{
		files: map[string]string{"README.md": "x\n", ".github/ralph.yml": "plan: {approval: required}\n"}, script: writesAll,
	})
	s := st.serveLogging(newLogger(config.Log{Level: "error", Format: "json"}, log))
	st.user("eve", ghsim.RoleTriage)
	issue := st.label("Say hello", threeTasks)
	state := st.ended(s.store, issue)
	st.processed(s)
	st.comment(issue.Number, "eve", "/ralph approve")
	st.processed(s)
	st.comment(issue.Number, person, "/ralph approve")
	st.another(s, issue, state.Run)
	st.processed(s)
	s.stop()
	var got []string
	for _, d := range decisions(t, log.text()) {
		got = append(got, fmt.Sprint(d["person"], " ", d["action"], " ", d[delivery.AuditKey]))
		if d["delivery"] == "" || d["time"] == nil || d["repo"] != person+"/"+repoOf || d["issue"] != float64(issue.Number) {
			t.Errorf("it is not known when, where or by what: %v", d)
		}
		if d["person"] == "eve" && !strings.Contains(d["reason"].(string), "triage") {
			t.Errorf("the reason is %v", d["reason"])
		}
	}
	want := []string{"ada label allowed", "eve /ralph approve refused", "ada /ralph approve allowed"}
	if !slices.Equal(got, want) {
		t.Errorf("the audit has %q, want %q", got, want)
	}
}
