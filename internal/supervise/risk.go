package supervise

import "fmt"

// Risk says how likely the run is to get stuck.
type Risk struct {
	// Score is from 0 to 1.
	Score float64
	// Reasons say what makes it up.
	Reasons []string
}

// From when on something is a sign of trouble ahead, most of it as the system had it
// that Ralph Bot learnt from. Churn and breadth are signs from the second attempt on.
const (
	riskyTouches    = 3   // one file in more iterations than that
	riskyFlat       = 5   // iterations
	riskyRepetition = 0.5 // of the failures
	recentlySwitch  = 3   // iterations
	riskyChurn      = 0.5 // of the changed files, where there are a few
	aFewFiles       = 3
	riskyBreadth    = 4 // areas, more than that
)

// risk looks at the task at hand, and for tests at what happened since
// something landed.
func (v *view) risk(w RiskWeights, now Signals) Risk {
	var r Risk
	add := func(score float64, reason string) {
		if score <= 0 {
			return
		}
		r.Score += score
		r.Reasons = append(r.Reasons, reason)
	}
	if v.last != nil {
		if times, file, _ := v.touches(); times > riskyTouches {
			add(w.Touches, quote(file, maxPath)+" is changed again and again")
		}
	}
	if flat(v.since) {
		add(w.FlatTests, "the number of tests does not grow")
	}
	if rate := repetition(v.own); rate > riskyRepetition {
		add(w.Repetition, "most errors have been seen before")
	}
	if switched(v.own) {
		add(w.RoleSwitch, "the role was switched a short time ago")
	}
	if len(v.own) > 1 && now.changed() >= aFewFiles && now.Churn > riskyChurn {
		add(w.Churn, "most of the files that change have changed before")
	}
	if len(v.own) > 1 && now.Breadth > riskyBreadth {
		add(w.Breadth, fmt.Sprintf("the change is spread over %d areas", now.Breadth))
	}
	r.Score = min(1, r.Score)
	return r
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
