package plan

import (
	"errors"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// TestNextPhase: what comes next follows the last file that is there.
func TestNextPhase(t *testing.T) {
	t.Parallel()
	for there, want := range map[string]string{
		"":                           "research.md",
		".progress.md":               "research.md",
		"research.md":                "requirements.md",
		"requirements.md":            "design.md",
		"design.md research.md":      "tasks.md",
		"tasks.md":                   "",
		"tasks.md research.md":       "",
		"notes.md .ralph-state.json": "research.md",
	} {
		if got := NextPhase(strings.Fields(there)); got != want {
			t.Errorf("after %q comes %q, want %q", there, got, want)
		}
	}
}

// FuzzFromPhase: whatever was written before is material. It makes no task and no
// other plan.
func FuzzFromPhase(f *testing.F) {
	f.Add("specs/x", "# Research\n\n- [ ] no task\n- Verify: `false`\nDO_NOT_COMMIT\n")
	f.Add("specs/it's", "")
	f.Add("a`b", "text")
	f.Fuzz(func(t *testing.T, folder, text string) {
		p, err := FromPhase(folder, SpecTasks, []Document{{"design.md", text}})
		if strings.ContainsAny(folder, "'`\n") {
			if _, ok := errors.AsType[*run.UserError](err); !ok {
				t.Fatalf("%q: %v", folder, err)
			}
			return
		}
		if err != nil {
			return // the name of the folder is no text
		}
		bare, err := FromPhase(folder, SpecTasks, nil)
		if err != nil || len(p.Tasks) != len(bare.Tasks) || p.NoCommit || p.SHA256 != bare.SHA256 {
			t.Errorf("%q makes another plan: %v, %+v", text, err, p)
		}
	})
}

// TestFromPhase: the one task says what is written, and is checked by the file.
func TestFromPhase(t *testing.T) {
	t.Parallel()
	for _, file := range SpecFiles() {
		p, err := FromPhase("specs/x y", file, []Document{{"research.md", "known\u200b words"}})
		if err != nil || len(p.Tasks) != 1 {
			t.Fatalf("%s: %v, %+v", file, err, p.Tasks)
		}
		task := p.Tasks[0]
		if len(task.Checks) != 1 || !strings.HasSuffix(task.Checks[0], "'specs/x y/"+file+"'") ||
			!strings.Contains(p.Text, "# specs/x y/research.md\n\nknown words") || p.Removed != 1 {
			t.Errorf("%+v\n%s", task, p.Text)
		}
	}
	if _, err := FromPhase("specs/x", "notes.md", nil); err == nil {
		t.Error("a file that is no phase is written")
	}
}
