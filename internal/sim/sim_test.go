package sim

import (
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// builtIn is a mix that comes with the program.
func builtIn(t *testing.T, name string) Mix {
	t.Helper()
	all, err := BuiltInMixes()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("there is no mix %q", name)
	return Mix{}
}

func play(t *testing.T, m Mix, seed uint64, runs int) Result {
	t.Helper()
	r, err := Run(t.Context(), m, seed, runs)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSameSeedGivesSameReport(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"faulty", "honest", "hopeless"} {
		m := builtIn(t, name)
		first := Markdown([]Result{play(t, m, 11, 8)})
		if diff := cmp.Diff(first, Markdown([]Result{play(t, m, 11, 8)})); diff != "" {
			t.Errorf("%s: the second report differs:\n%s", name, diff)
		}
	}
	m := builtIn(t, "faulty")
	if cmp.Equal(play(t, m, 11, 8).Loop, play(t, m, 12, 8).Loop) {
		t.Error("another seed gives the same runs")
	}
}

// How many workers play the runs, and in which order, must not show.
func TestReportDoesNotDependOnProcessors(t *testing.T) {
	m := builtIn(t, "faulty")
	many := play(t, m, 5, 8)
	old := runtime.GOMAXPROCS(1)
	one := play(t, m, 5, 8)
	runtime.GOMAXPROCS(old)
	if diff := cmp.Diff(many, one); diff != "" {
		t.Error(diff)
	}
}

// The bars that the loop holds today. All of them are printed by `make sim`, which
// fails for the others.
func TestBars(t *testing.T) {
	t.Parallel()
	tests := []struct {
		mix  string
		bars []string
	}{
		{"faulty", []string{"doubled effects", "runs over budget", "errors of the loop itself", "calls at a hopeless task after the evidence"}},
		{"honest", []string{
			"false completions", "commits whose checks fail", "lost good work", "doubled effects", "runs over budget",
			"errors of the loop itself", "solvable tasks finished", "calls per finished task, of plain Ralph's",
		}},
		{"hopeless", []string{
			"false completions", "commits whose checks fail", "lost good work", "doubled effects", "runs over budget",
			"errors of the loop itself", "calls at a hopeless task after the evidence",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.mix, func(t *testing.T) {
			t.Parallel()
			bars := map[string]Bar{}
			for _, b := range play(t, builtIn(t, tt.mix), 1, 20).Bars {
				bars[b.Name] = b
			}
			for _, name := range tt.bars {
				if b, ok := bars[name]; !ok || !b.Held {
					t.Errorf("%s: is %q, must be %q (reported: %t)", name, b.Is, b.Must, ok)
				}
			}
		})
	}
}
