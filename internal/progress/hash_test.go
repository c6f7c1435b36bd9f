package progress

import (
	"strings"
	"testing"
)

const plan = `## Tasks
### Phase 1
- [ ] T1 (P1) [P] Write it
  - Accept: it runs
  - [ ] it is tested
- [ ] T2 Wire it
  - Depends on: T1

  Mind the gap.
### Phase 2
- [ ] T3 [VERIFY] Try it
`

// What is another plan, and what is the same one further on or written
// otherwise.
func TestPlanSHA256(t *testing.T) {
	t.Parallel()
	base := parse(t, plan).PlanSHA256()
	if len(base) != 64 {
		t.Fatalf("hash %q", base)
	}
	tests := []struct {
		name, old, now string
		same           bool
	}{
		{"tick", "[ ] T1", "[x] T1", true},
		{"tick below", "[ ] it is", "[X] it is", true},
		{"block", "Wire it", "Wire it (blocked: no key)", true},
		{"skip", "Try it", "Try it (skipped: later)", true},
		{"windows", "\n", "\r\n", true},
		{"bullets", "- ", "* ", true},
		{"tabs", "[ ] T", "[ ]\tT", true},
		{"blank lines", "\n### Phase 2", "\n\n\n### Phase 2", true},
		{"order of tags", "T1 (P1) [P]", "[P] (P1) **T1:**", true},
		{"other sections", "## Tasks", "# Title\n\n## Status\nRALPH_DONE\n\n## Analysis\nx\n\n## Tasks", true},
		{"learnings", "Try it\n", "Try it\n\n## Learnings\n- x\n", true},
		{"other ids", "T1", "T11", true},
		{"title", "Wire it", "Wire them", false},
		{"case", "Wire it", "wire it", false},
		{"priority", "(P1)", "(P2)", false},
		{"no priority", "(P1) ", "", false},
		{"marker", "[P]", "[VERIFY]", false},
		{"criterion", "it runs", "it is there", false},
		{"criterion below", "it is tested", "it is not tested", false},
		{"criterion gone", "  - Accept: it runs\n", "", false},
		{"dependency", "Depends on: T1", "Depends on: T3", false},
		{"dependency on nothing", "Depends on: T1", "Depends on: T9", false},
		{"dependency gone", "  - Depends on: T1\n", "", false},
		{"text below", "Mind the gap.", "Jump.", false},
		{"group", "Phase 2", "Phase 3", false},
		{"moved to another group", "### Phase 2\n- [ ] T3", "- [ ] T3", false},
		{"one more", "Try it", "Try it\n- [ ] T4 More", false},
		{"one less", "- [ ] T3 [VERIFY] Try it", "", false},
		{"order", "T1 (P1) [P] Write it\n  - Accept: it runs\n  - [ ] it is tested\n- [ ] T2", "T2", false},
		{"title into criterion", "Wire it", "Wire it\n  - it", false},
	}
	for _, tc := range tests {
		src := strings.ReplaceAll(plan, tc.old, tc.now)
		if src == plan {
			t.Fatalf("%s: nothing changed", tc.name)
		}
		if got := parse(t, src).PlanSHA256() == base; got != tc.same {
			t.Errorf("%s: same plan %v, want %v", tc.name, got, tc.same)
		}
	}
}
