package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// phase is a file of a spec, as smart-ralph has them, and what it has to say.
type phase struct{ file, says string }

// phases are in the order in which they are written. The last one is worked.
var phases = []phase{
	{"research.md", "what the code base has already, what is known elsewhere, what is feasible, risks, the commands that " +
		"check the code, and open questions"},
	{"requirements.md", "numbered user stories with acceptance criteria, other requirements, and what is out of scope"},
	{"design.md", "the parts and how they work together, decisions with their reasons, files to add or change, errors, and " +
		"how to test it"},
	{SpecTasks, "the work in small steps, in order: lines `- [ ] 1.1 Title` with bullets `Do:`, `Files:`, `Done when:`, " +
		"`Verify:` with a command in backticks, and `Commit:` below each"},
}

// SpecTasks is the file of a spec that has its tasks.
const SpecTasks = "tasks.md"

// SpecFiles are the files of a spec, in the order in which they are written.
func SpecFiles() []string {
	out := make([]string, len(phases))
	for i, p := range phases {
		out[i] = p.file
	}
	return out
}

// NextPhase is the file of a spec that comes next, after the last of those that are
// there; "" where the tasks are.
func NextPhase(there []string) string {
	next := 0
	for i, p := range phases {
		if slices.Contains(there, p.file) {
			next = i + 1
		}
	}
	if next == len(phases) {
		return ""
	}
	return phases[next].file
}

// Document is a file of a spec that was written before.
type Document struct{ Name, Text string }

// FromPhase makes a plan of writing that file of the spec in folder, after those
// that were written. The same file of the same folder is the same plan.
func FromPhase(folder, file string, written []Document) (Plan, error) {
	at := slices.IndexFunc(phases, func(p phase) bool { return p.file == file })
	name := path.Join(folder, file)
	if at < 0 || strings.ContainsAny(name, "'`\n") {
		return Plan{}, &run.UserError{
			Message: fmt.Sprintf("%q cannot be written as a file of a spec", name),
			Hint:    "rename the folder, without quotes in its name",
		}
	}
	kind := strings.TrimSuffix(file, path.Ext(file))
	check := "test -s '" + name + "'"
	if file == SpecTasks {
		check = `grep -q '^- \[ \] ' '` + name + "'"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %s\n\n- [ ] Write %s\n", path.Base(folder), kind, name)
	fmt.Fprintf(&b, "  - Do:\n    1. Read what was written of this spec before, and the code that it is about\n"+
		"    2. Write %s: %s\n", file, phases[at].says)
	fmt.Fprintf(&b,
		"  - Files: %s\n  - Done when: the file is whole, and no other file was changed\n  - Verify: `%s`\n", name, check)
	fmt.Fprintf(&b, "  - Commit: docs: write the %s of %s\n", kind, path.Base(folder))
	p, err := FromText(b.String())
	if err != nil {
		return Plan{}, err
	}
	for _, d := range written {
		text, removed := progress.Clean(d.Text)
		p.Removed += removed
		p.Text += fmt.Sprintf("\n\n# %s\n\n%s", path.Join(folder, d.Name), strings.TrimSpace(text))
	}
	return p, nil
}
