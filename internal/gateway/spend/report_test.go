package spend_test

import (
	"testing"

	"github.com/org/ralph-action/internal/gateway/spend"
)

func TestOverTask(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		scope spend.Scope
		want  bool
	}{
		"task":  {spend.TaskScope("r1", "T1", spend.Dollars(1)), true},
		"run":   {spend.RunScope("r1", spend.Dollars(1)), false},
		"issue": {spend.IssueScope("I_1", spend.Dollars(1)), false},
	} {
		err := &spend.OverError{Scope: tc.scope, Spent: spend.Dollars(2)}
		r := spend.Report{Refused: []spend.Refusal{{Reason: "other"}, {Reason: err.Error(), Budget: true}}}
		if got := r.OverTask(); got != tc.want {
			t.Errorf("%s: %v for %q", name, got, err)
		}
	}
	if (spend.Report{}).OverTask() {
		t.Error("nothing was refused")
	}
}
