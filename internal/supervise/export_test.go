package supervise

// Measure is measure of a whole history.
func Measure(its []Iteration) []Signals {
	all := make([]*Iteration, len(its))
	for i := range its {
		all[i] = &its[i]
	}
	return measure(all)
}

// StrategyFor is strategyFor of a history.
func StrategyFor(class FailureClass, h History) Strategy {
	v := newView(&h)
	return strategyFor(class, &v)
}
