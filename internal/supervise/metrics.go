package supervise

import (
	"iter"
	"slices"
)

// shared yields what the checks said that both a and b hold.
func shared(a, b Metrics) iter.Seq2[GateMetrics, GateMetrics] {
	return func(yield func(GateMetrics, GateMetrics) bool) {
		for _, x := range a.Gates {
			for _, y := range b.Gates {
				if x.Gate == y.Gate && !yield(x, y) {
					return
				}
			}
		}
	}
}

// lost is how many of the tests that pass at best do not pass now, less than 0
// where more do, and how many those at best are. Checks that count fewer tests
// than at best did not run them all, and say nothing; known is false where none
// says anything.
func lost(now, best Metrics) (tests, of float64, known bool) {
	for n, b := range shared(now, best) {
		if !n.TestsKnown || !b.TestsKnown || n.TestsTotal < b.TestsTotal {
			continue
		}
		known = true
		tests += float64(max(0, b.TestsPassed)) - float64(max(0, n.TestsPassed))
		of += float64(max(0, b.TestsPassed))
	}
	return tests, of, known
}

// added is how many warnings there are more now than at best, in the checks that
// counted them both times.
func added(now, best Metrics) int {
	more := 0.0
	for n, b := range shared(now, best) {
		if n.WarningsKnown && b.WarningsKnown {
			more += float64(n.Warnings) - float64(b.Warnings)
		}
	}
	return int(max(-maxCount, min(more, maxCount)))
}

// maxCount bounds what is made of counts that tools report.
const maxCount = 1 << 30

// known is how many checks counted tests, and how many warnings.
func (m Metrics) known() (tests, warnings int) {
	for _, g := range m.Gates {
		if g.TestsKnown {
			tests++
		}
		if g.WarningsKnown {
			warnings++
		}
	}
	return tests, warnings
}

// beats says whether a is better than b: more tests pass, then more is known of
// the tests, then there are fewer warnings, then more is known of these.
func (m Metrics) beats(b Metrics) bool {
	if fewer, _, ok := lost(m, b); ok && fewer != 0 {
		return fewer < 0
	}
	tests, warnings := m.known()
	bTests, bWarnings := b.known()
	switch more := added(m, b); {
	case tests != bTests:
		return tests > bTests
	case more != 0:
		return more < 0
	default:
		return warnings > bWarnings
	}
}

// better holds the better of each count of m and b.
func (m Metrics) better(b Metrics) Metrics {
	out := Metrics{Gates: slices.Clone(m.Gates)}
	for _, g := range b.Gates {
		i := slices.IndexFunc(out.Gates, func(o GateMetrics) bool { return o.Gate == g.Gate })
		if i < 0 {
			out.Gates = append(out.Gates, g)
			continue
		}
		o := &out.Gates[i]
		if g.TestsKnown && (!o.TestsKnown || g.TestsPassed > o.TestsPassed) {
			o.TestsKnown, o.TestsTotal, o.TestsPassed = true, g.TestsTotal, g.TestsPassed
		}
		if g.WarningsKnown && (!o.WarningsKnown || g.Warnings < o.Warnings) {
			o.WarningsKnown, o.Warnings = true, g.Warnings
		}
	}
	return out
}

// Regressed says whether now is worse than best: fewer tests pass, in the checks
// that ran both times. It is false where that is not known.
func Regressed(now, best Metrics) bool {
	fewer, _, ok := lost(now, best)
	return ok && fewer > 0
}
