package supervise

import (
	"iter"
	"slices"
	"time"
)

// view is what of a history counts when a task is about to be worked.
type view struct {
	h *History
	// since are the iterations after the last landing, oldest first.
	since []*Iteration
	// task is the one at hand, and family that or the one it was split off from.
	task, family string
	// own are the iterations of the task after it last landed. A part begins
	// anew: what came of the whole is held against it in errors alone.
	own []*Iteration
	// kin are those of the family, since any of it landed.
	kin []*Iteration
	// last is the last of own, nil where there is none.
	last *Iteration
}

func newView(h *History) view {
	its := h.counted()
	v := view{h: h, since: its, task: h.Task.ID, family: family(h.Task.ID, h.Task.ParentID)}
	if v.family == "" && len(its) > 0 {
		v.task, v.family = its[len(its)-1].TaskID, its[len(its)-1].family()
	}
	for i, it := range slices.Backward(its) {
		if it.Landed {
			v.since = its[i+1:]
			break
		}
	}
	for _, it := range its {
		if it.family() != v.family {
			continue
		}
		if it.Landed {
			v.kin = v.kin[:0]
		} else {
			v.kin = append(v.kin, it)
		}
		switch {
		case it.TaskID != v.task:
		case it.Landed:
			v.own = v.own[:0]
		default:
			v.own = append(v.own, it)
		}
	}
	if n := len(v.own); n > 0 {
		v.last = v.own[n-1]
	}
	return v
}

// matching are the own iterations that share a property, provided that the last
// one has it. What stopped happening is no evidence.
func (v *view) matching(has func(*Iteration) bool) []*Iteration {
	if v.last == nil || !has(v.last) {
		return nil
	}
	var found []*Iteration
	for _, it := range v.own {
		if has(it) {
			found = append(found, it)
		}
	}
	return found
}

// sameError counts how often the last error came.
func (v *view) sameError() int { return len(v.errors()) }

// inherited is how many times that the whole ended in an error count for its
// parts as well, so that a part has two attempts at what the whole failed at.
const inherited = 2

// errors are the iterations that ended in the last error: of the task, and of the
// other parts of what it was split off from.
func (v *view) errors() []*Iteration {
	if v.last == nil || v.last.Error.Hash == "" {
		return nil
	}
	var whole, parts []*Iteration
	for _, it := range v.kin {
		switch {
		case it.Error.Hash != v.last.Error.Hash, it.hid():
		case it.TaskID == v.family && v.task != v.family:
			whole = append(whole, it)
		case it.TaskID == v.task || v.task != v.family:
			parts = append(parts, it)
		}
	}
	return append(whole[max(0, len(whole)-inherited):], parts...)
}

// siblings says whether more than one part ended in the last error.
func (v *view) siblings() bool {
	return v.task != v.family && slices.ContainsFunc(v.errors(), func(it *Iteration) bool {
		return it.TaskID != v.task && it.TaskID != v.family
	})
}

func (v *view) sameClass(class FailureClass) int {
	return len(v.matching(func(it *Iteration) bool { return it.Class == class }))
}

// story are all iterations of the task and its parts since they last landed,
// those included that are no evidence; the last one first.
func (v *view) story() iter.Seq[*Iteration] {
	return func(yield func(*Iteration) bool) {
		for i := range slices.Backward(v.h.Iterations) {
			it := &v.h.Iterations[i]
			switch {
			case it.family() != v.family, v.h.answered(it):
				continue
			case it.Landed && !it.neutral():
				return
			}
			if !yield(it) {
				return
			}
		}
	}
}

// told says whether the supervisor has said that already since the task last
// landed.
func (v *view) told(kind VerdictKind) bool {
	for it := range v.story() {
		if it.TaskID == v.task && it.Verdict == kind {
			return true
		}
	}
	return false
}

// maxSplits is how often a plan to split one task up is asked for where nothing
// came of the ones before, though the agent says that the task is too much.
const maxSplits = 3

// splittable says whether the task may be split up: not what came out of that,
// and once, unless the agent says that it is too much.
func (v *view) splittable() bool {
	if v.h.Task.ID == "" || v.h.Task.ParentID != "" || v.h.Task.Decomposed {
		return false
	}
	asked := v.splits()
	return asked == 0 || asked < maxSplits && v.tooMuch()
}

// tooMuch says whether the last attempt at the task took it for too much, plans to
// split it up left out.
func (v *view) tooMuch() bool {
	for _, it := range slices.Backward(v.own) {
		if it.Verdict != VerdictDecompose && it.Outcome != Broken {
			return it.tooMuch()
		}
	}
	return false
}

// splits is how often a planner was asked to split the task up, and gave an answer.
func (v *view) splits() int {
	asked := 0
	for it := range v.story() {
		if it.Verdict == VerdictDecompose && it.Outcome != Broken {
			asked++
		}
	}
	return asked
}

// strikes counts the attempts at the task at hand from the first one that was
// repeated: 1 while each shows something of its own, 2 with the first repetition,
// which is the evidence that more of the same leads nowhere, and then each call at
// the task counts, a plan to split it up and a look at what is claimed as well. Calls that broke off do not.
func (v *view) strikes() int {
	seen := map[string]bool{}
	var failed [][]string
	strikes := 0
	for _, it := range v.own {
		if it.Advanced { // what was shown before is no evidence any more
			clear(seen)
			failed, strikes = nil, 0
		}
		switch {
		case it.Outcome == Broken:
			continue
		case strikes > 1:
			strikes += 1 + it.Looks
			continue
		case it.Verdict == VerdictDecompose:
			continue
		}
		strikes = 1
		what, tests := it.shows(v.h.Flaky)
		switch {
		case len(tests) > 0:
			if slices.ContainsFunc(failed, func(before []string) bool { return repeats(tests, before) }) {
				strikes = 2 + it.Looks
			}
			failed = append(failed, tests)
		case what != "":
			if seen[what] {
				strikes = 2 + it.Looks
			}
			seen[what] = true
		}
	}
	return strikes
}

func (v *view) split() StrategyKind {
	if v.splittable() {
		return Decompose
	}
	return ChangeApproach
}

// spent is how long the task was worked on since it last landed.
func (v *view) spent() time.Duration {
	var sum time.Duration
	for it := range v.story() {
		if it.neutral() || it.TaskID != v.task {
			continue
		}
		if next := sum + max(0, it.Duration); next >= sum { // else it overflowed
			sum = next
		}
	}
	return sum
}
