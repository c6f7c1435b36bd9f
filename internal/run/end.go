package run

// EndReason says why a run ended. Every door (App, Action, command line) shows
// the same reason; each has its own exit code, check-run conclusion and
// sentence, so that "stopped" never looks like "finished".
type EndReason string

// The reasons a run may end for.
const (
	// EndAllTasksComplete: every actionable task is ticked by the host and the
	// gates pass.
	EndAllTasksComplete EndReason = "all_tasks_complete"
	// EndPlanned: plan mode wrote the plan; nothing else was asked for.
	EndPlanned EndReason = "planned"
	// EndSingleIteration: one iteration was asked for (--once) and done.
	EndSingleIteration EndReason = "single_iteration"
	// EndMaxIterations: the limit of iterations was reached with tasks open.
	EndMaxIterations EndReason = "max_iterations"
	// EndDeadline: the time for the whole run is over.
	EndDeadline EndReason = "deadline"
	// EndBudgetExhausted: a budget is used up.
	EndBudgetExhausted EndReason = "budget_exhausted"
	// EndStagnated: iterations no longer move the work forward.
	EndStagnated EndReason = "stagnated"
	// EndBlocked: tasks are left, and each of them used up its attempts.
	EndBlocked EndReason = "blocked"
	// EndAwaitingPerson: a person has to answer or approve before work goes on.
	EndAwaitingPerson EndReason = "awaiting_person"
	// EndCancelled: a person stopped the run.
	EndCancelled EndReason = "cancelled"
	// EndFailed: the run could not go on: the agent or its surroundings broke.
	EndFailed EndReason = "failed"
)

// Phase is the one that a run is in that ended for reason r.
func (r EndReason) Phase() Phase {
	switch r { //nolint:exhaustive // every other reason is a run that has done what it could
	case EndCancelled:
		return PhaseCancelled
	case EndFailed:
		return PhaseFailed
	case EndAwaitingPerson:
		return PhasePaused
	default:
		return PhaseDone
	}
}

// The exit codes of the command line. 130 and 143 (SIGINT, SIGTERM) replace
// ExitCancelled where a signal ended the run.
const (
	ExitComplete       = 0
	ExitFailed         = 1
	ExitUsage          = 2
	ExitMaxIterations  = 3
	ExitStagnated      = 4
	ExitBudget         = 5
	ExitCancelled      = 6
	ExitBlocked        = 7
	ExitDeadline       = 8
	ExitAwaitingPerson = 9
	ExitInterrupted    = 130
	ExitTerminated     = 143
)

// Conclusion is how a check run on GitHub says that something ended. A branch
// rule that requires a check lets success and neutral through, and holds
// everything else back.
type Conclusion string

// The conclusions an App can give
// (docs.github.com/rest/checks/runs#create-a-check-run).
const (
	ConclusionSuccess        Conclusion = "success"
	ConclusionNeutral        Conclusion = "neutral"
	ConclusionFailure        Conclusion = "failure"
	ConclusionCancelled      Conclusion = "cancelled"
	ConclusionTimedOut       Conclusion = "timed_out"
	ConclusionActionRequired Conclusion = "action_required"
)

// ending is what each door tells of an end.
type ending struct {
	reason     EndReason
	exit       int
	conclusion Conclusion
	sentence   string
}

// endings are in the order of the documentation.
var endings = []ending{
	{EndAllTasksComplete, ExitComplete, ConclusionSuccess, "All tasks are done"},
	{EndPlanned, ExitComplete, ConclusionNeutral, "The plan is written; no code was changed"},
	{EndSingleIteration, ExitComplete, ConclusionNeutral, "Stopped after one iteration (--once)"},
	{EndMaxIterations, ExitMaxIterations, ConclusionActionRequired, "Stopped at the iteration limit with tasks still open"},
	{EndDeadline, ExitDeadline, ConclusionTimedOut, "Stopped at the deadline with tasks still open"},
	{EndBudgetExhausted, ExitBudget, ConclusionActionRequired, "Stopped because the budget is used up"},
	{EndStagnated, ExitStagnated, ConclusionFailure, "Stopped because the work made no progress"},
	{EndBlocked, ExitBlocked, ConclusionFailure, "Stopped: all remaining tasks are blocked"},
	{EndAwaitingPerson, ExitAwaitingPerson, ConclusionActionRequired, "Waiting for a person"},
	{EndCancelled, ExitCancelled, ConclusionCancelled, "Stopped by a person"},
	{EndFailed, ExitFailed, ConclusionFailure, "Stopped: retrying won't fix this"},
}

func (r EndReason) ending() ending {
	for _, e := range endings {
		if e.reason == r {
			return e
		}
	}
	return ending{r, ExitFailed, ConclusionFailure, "Ended for an unknown reason"}
}

// EndReasons lists every reason, in the order of the documentation.
func EndReasons() []EndReason {
	var all []EndReason
	for _, e := range endings {
		all = append(all, e.reason)
	}
	return all
}

// ExitCode is the process exit code for a run that ended for reason r.
func (r EndReason) ExitCode() int { return r.ending().exit }

// Conclusion is how the check run of a run that ended for reason r concludes:
// success only if it is complete, neutral where less than the whole was asked
// for, and otherwise one that holds a required check back. Where nothing broke
// and a person has to decide whether to go on, that is action_required.
func (r EndReason) Conclusion() Conclusion { return r.ending().conclusion }

// Complete says whether all the work that was asked for is done.
func (r EndReason) Complete() bool {
	return r == EndAllTasksComplete
}

// NeedsPerson says whether the work stands still until a person has done
// something: answered, approved, fixed, or decided how to go on.
func (r EndReason) NeedsPerson() bool {
	return r == EndAwaitingPerson || r == EndBlocked || r == EndStagnated || r == EndFailed
}

// Sentence is what a person reads about the end of a run, without a full stop. What
// shows that the work is right is [Proof]'s to say.
func (r EndReason) Sentence() string { return r.ending().sentence }
