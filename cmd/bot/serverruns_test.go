package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// The runs of a server are listed and shown from its database: while it works, and when it
// has been stopped.
func TestServerRuns(t *testing.T) {
	t.Parallel()
	st := newStage(t, setting{script: hangsOnTwo})
	file := st.writeConfig()
	says := func(want int, args ...string) string {
		t.Helper()
		code, out := st.bot(append(args, "--config", file)...)
		if code != want {
			t.Errorf("%v: exit code %d, %q", args, code, out)
		}
		return out
	}
	says(run.ExitUsage, "runs") // nobody has served yet
	s := st.serve()
	issue := st.label("Say hello", threeTasks)
	st.agentAt(s, "T2")
	where := fmt.Sprintf("%s/%s#%d", person, repoOf, issue.Number)
	var all []serverRun
	if err := json.Unmarshal([]byte(says(0, "runs", "--json")), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0].Issue != issue.Number || all[0].End != "" || all[0].Done != 1 || all[0].Total != 3 {
		t.Fatalf("%+v", all)
	}
	id := string(all[0].ID)
	if out := says(0, "show", id[:len(id)-1]); !strings.Contains(out, "[x] T1") || !strings.Contains(out, where) {
		t.Errorf("show says:\n%s", out)
	}
	says(run.ExitUsage, "show", "r-of-nobody")
	st.comment(issue.Number, person, "/ralph stop")
	st.ended(s.store, issue)
	st.processed(s)
	s.stop()
	if out := says(0, "runs"); !strings.Contains(out, where) || !strings.Contains(out, string(run.EndCancelled)) {
		t.Errorf("runs says:\n%s", out)
	}
	var shown serverRun
	if err := json.Unmarshal([]byte(says(0, "show", id, "--json")), &shown); err != nil {
		t.Fatal(err)
	}
	if shown.End != string(run.EndCancelled) || !slices.ContainsFunc(shown.Tasks, func(task serverTask) bool {
		return task.ID == "T1" && task.Status == string(run.TaskDone)
	}) {
		t.Errorf("%+v", shown)
	}
}
