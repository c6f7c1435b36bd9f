package publish

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/run"
)

// Who approves a plan sees every command of it, whole and unable to act.
func TestPlanTextShowsChecks(t *testing.T) {
	t.Parallel()
	long := "echo " + strings.Repeat("x", 900) + " end"
	got := PlanText(View{
		Tasks: []run.Task{{ID: "T1", Title: "a", Accept: []string{"b"}, Checks: []string{"make test", long, "x @walt `"}}},
	}, "0011")
	for _, want := range []string{
		"\n- [ ] T1 a\n  - Accept: b\n  - Verify: `make test`\n", "  - Verify: `" + long + "`\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%.80q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "@walt") {
		t.Errorf("it mentions somebody:\n%s", got)
	}
}
