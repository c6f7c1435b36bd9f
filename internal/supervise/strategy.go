package supervise

import (
	"fmt"
	"strings"
)

// StrategyKind names a way to go at a task that failed.
type StrategyKind string

// The strategies.
const (
	// StrategyNone: nothing failed.
	StrategyNone StrategyKind = ""
	// IsolatedFix: fix one place and nothing else.
	IsolatedFix StrategyKind = "isolated_fix"
	// TestFirst: understand the failing test, then change the implementation.
	TestFirst StrategyKind = "test_first"
	// Decompose: split the task up and work its first part.
	Decompose StrategyKind = "decompose"
	// GatherContext: read before writing.
	GatherContext StrategyKind = "gather_context"
	// WaitForProvider: nothing to do but wait.
	WaitForProvider StrategyKind = "wait"
	// RetryFresh: try again; the failure says nothing about the task.
	RetryFresh StrategyKind = "retry_fresh"
	// ChangeApproach: what was tried does not work out; do it another way.
	ChangeApproach StrategyKind = "change_approach"
)

// StrategyKinds lists every strategy.
func StrategyKinds() []StrategyKind {
	return []StrategyKind{IsolatedFix, TestFirst, Decompose, GatherContext, WaitForProvider, RetryFresh, ChangeApproach}
}

// Strategy is how to go at the next attempt.
type Strategy struct {
	Kind StrategyKind
	// Guidance is what the next prompt should say: short, imperative, without
	// any mark by which a run says that it is done. It may quote tools.
	Guidance string
}

// strategyFor answers a failure of the given class, in the light of what was
// tried at the task before.
func strategyFor(class FailureClass, v *view) Strategy {
	kind := strategyKind(class, v)
	s := Strategy{Kind: kind}
	var sig Signature
	if v.last != nil {
		sig = v.last.Error
	}
	switch kind {
	case StrategyNone, WaitForProvider:
	case IsolatedFix:
		at := ""
		if sig.File != "" {
			at = fmt.Sprintf(" It is at `%s:%d`.", quote(sig.File, maxPath), sig.Line)
		}
		what := map[FailureClass]string{
			FailCompile: "this compilation error", FailLint: "what the linter objects to",
			FailTimeout: "what makes the check hang or run too long",
		}[class]
		s.Guidance = fmt.Sprintf("Fix only %s and change nothing else.%s Run the failing check yourself before you end.",
			what, at)
	case TestFirst:
		which := "the failing test"
		if n := len(sig.Tests); n > 0 {
			names := make([]string, 0, 3)
			for _, t := range sig.Tests[:min(n, 3)] {
				names = append(names, "`"+quote(t, maxName)+"`")
			}
			which = strings.Join(names, ", ")
			if n > 3 {
				which += fmt.Sprintf(" and %d more", n-3)
			}
		}
		s.Guidance = fmt.Sprintf("Read %s first and understand what is expected. Then change only the implementation "+
			"until it passes. Do not change or delete the test.", which)
	case Decompose:
		s.Guidance = "The task is too much for one call. Split it into parts that can each be described in two or " +
			"three sentences and checked by themselves, then work the first part only."
	case GatherContext:
		s.Guidance = "Gather what you need first: find the definitions, the callers and the tests of what you are " +
			"going to change, and read them. Write down what you learnt, make a reasonable assumption where " +
			"something stays open, then change the code."
	case RetryFresh:
		s.Guidance = map[FailureClass]string{
			FailEmpty: "The last call changed no file. Make the change now; reading and planning alone do not count.",
			FailCrash: "The last call broke off. Start with the smallest useful change and keep commands short.",
		}[class]
		if s.Guidance == "" {
			s.Guidance = "Read what went wrong in the last attempt and fix that before anything else."
		}
	case ChangeApproach:
		s.Guidance = "What was tried does not work. Do not repeat it: name its assumption that is wrong, choose " +
			"another way, and take the smallest step that shows whether it works."
		if class == FailRefused {
			s.Guidance = "The last change touched what this run must not change. Leave those files alone and reach " +
				"the goal without them; if that is impossible, say exactly why."
		}
	}
	return s
}

// The repetitions after which more of the same is no answer.
const enoughOfTheSame = 3

func strategyKind(class FailureClass, v *view) StrategyKind {
	switch class {
	case FailNone:
		return StrategyNone
	case FailRateLimit:
		return WaitForProvider
	case FailRefused:
		return ChangeApproach
	case FailCrash:
		return RetryFresh
	case FailCompile, FailLint:
		if v.sameError() >= enoughOfTheSame {
			return ChangeApproach
		}
		return IsolatedFix
	case FailTest:
		if v.sameError() >= enoughOfTheSame {
			return ChangeApproach
		}
		return TestFirst
	case FailTimeout:
		if v.last != nil && v.last.Outcome == Completed {
			return IsolatedFix // a check ran out of time, not the agent
		}
		return v.split()
	case FailTooComplex:
		return v.split()
	case FailMissingContext:
		if v.sameClass(FailMissingContext) >= enoughOfTheSame {
			return ChangeApproach
		}
		return GatherContext
	case FailEmpty, FailUnknown:
		if v.sameClass(class) >= enoughOfTheSame-1 {
			return ChangeApproach
		}
		return RetryFresh
	default:
		return RetryFresh
	}
}
