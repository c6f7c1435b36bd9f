package supervise

import "slices"

// Risk says how likely the run is to get stuck.
type Risk struct {
	// Score is from 0 to 1.
	Score float64
	// Reasons say what makes it up.
	Reasons []string
}

// The signs of trouble ahead, what each adds to the risk, and from which risk on the
// next call is narrowed down: those of the system that Ralph Bot learnt from.
const (
	riskyTouches    = 3   // one file in more iterations than that
	riskyFlat       = 5   // iterations
	riskyRepetition = 0.5 // of the failures
	recentlySwitch  = 3   // iterations

	weightTouches    = 0.3
	weightFlat       = 0.2
	weightRepetition = 0.4
	weightSwitch     = 0.2

	narrowRisk = 0.5
)

// risk looks at the task at hand, and for tests at what happened since
// something landed.
func (v *view) risk() Risk {
	var r Risk
	add := func(score float64, reason string) {
		r.Score = min(1, r.Score+score)
		r.Reasons = append(r.Reasons, reason)
	}
	if file := v.touched(); file != "" {
		add(weightTouches, quote(file, maxPath)+" is changed again and again")
	}
	if flat(v.since) {
		add(weightFlat, "the number of tests does not grow")
	}
	if repetition(v.own) > riskyRepetition {
		add(weightRepetition, "most errors have been seen before")
	}
	if switched(v.own) {
		add(weightSwitch, "the role was switched a short time ago")
	}
	return r
}

// touched is a file that too many iterations changed, the last one included; "" for none.
func (v *view) touched() string {
	if v.last == nil {
		return ""
	}
	for _, f := range v.last.Files {
		n := 0
		for _, it := range v.own {
			if slices.Contains(it.Files, f) {
				n++
			}
		}
		if n > riskyTouches {
			return f
		}
	}
	return ""
}

// flat says whether the last five counts of tests did not grow.
func flat(its []*Iteration) bool {
	var last []Metrics
	for i := len(its) - 1; i >= 0 && len(last) < riskyFlat; i-- {
		if tests, _ := its[i].Metrics.known(); tests > 0 {
			last = append(last, its[i].Metrics)
		}
	}
	if len(last) < riskyFlat {
		return false
	}
	for _, m := range last {
		for now, first := range shared(m, last[len(last)-1]) {
			if now.TestsTotal > first.TestsTotal {
				return false
			}
		}
	}
	return true
}

// repetition is the share of the errors that had come before.
func repetition(its []*Iteration) float64 {
	seen := map[string]bool{}
	errors, again := 0, 0
	for _, it := range its {
		if it.Error.Hash == "" {
			continue
		}
		errors++
		if seen[it.Error.Hash] {
			again++
		}
		seen[it.Error.Hash] = true
	}
	if errors == 0 {
		return 0
	}
	return float64(again) / float64(errors)
}

func switched(its []*Iteration) bool {
	for i := len(its) - 1; i > 0 && i > len(its)-recentlySwitch; i-- {
		if its[i].Role != its[i-1].Role {
			return true
		}
	}
	return false
}
