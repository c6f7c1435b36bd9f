package gate_test

import (
	"testing"

	"github.com/org/ralph-action/internal/gate"
)

func TestSize(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		diffs                 []gate.FileDiff
		added, removed, tests int
	}{
		"nothing":  {},
		"new file": {[]gate.FileDiff{{Path: "a.go", New: []byte("package a\n\nvar x = 1\n")}}, 2, 0, 0},
		"moved":    {[]gate.FileDiff{{Path: "a.go", Old: []byte("a\nb\n"), New: []byte("b\na\n")}}, 0, 0, 0},
		"changed":  {[]gate.FileDiff{{Path: "a.go", Old: []byte("a\nb\nb\n"), New: []byte("a\nb\nc\n")}}, 1, 1, 0},
		"a test": {
			[]gate.FileDiff{
				{Path: "a_test.go", Old: []byte("package a\n"), New: []byte("package a\nfunc TestX(t *testing.T) {}\n")},
			},
			1, 0, 1,
		},
		"gone": {[]gate.FileDiff{{Path: "a_test.go", Old: []byte("func TestX(t *testing.T) {}\n")}}, 0, 1, 0},
	} {
		added, removed, tests := gate.Size(t.Context(), tc.diffs)
		if added != tc.added || removed != tc.removed || tests != tc.tests {
			t.Errorf("%s: +%d -%d, %d tests; want +%d -%d, %d", name, added, removed, tests, tc.added, tc.removed, tc.tests)
		}
	}
}
