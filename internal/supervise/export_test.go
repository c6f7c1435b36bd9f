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

// PatternSteps are the thresholds of all patterns.
func PatternSteps(cfg Config) map[PatternKind]Steps {
	return map[PatternKind]Steps{
		PatternStagnation: times(cfg.StagnationThreshold), PatternSharedError: sharedSteps,
		PatternRepeatingError: repeatingSteps,
		PatternRegression:     regressionSteps, PatternTimeOnTask: times(1),
	}
}
