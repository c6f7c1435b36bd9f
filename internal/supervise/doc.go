// Package supervise judges how a run is going from what its iterations left
// behind, and says what to do about it: go on, narrow, switch the role, decompose,
// roll back, give a task up, or stop.
//
// [Assess] is asked before each iteration. [Normalise] and [Classify] make the
// facts of a failure comparable when it is recorded, [Activity] and
// [AnalyseOutput] those of an agent's behaviour.
//
// Invariants:
//   - Pure functions of what is handed in: no clock, no files, no state.
//   - Total: any history and any configuration gives an answer, never a panic.
//   - Bounded: no more than the last [Window] iterations are looked at, and
//     each of them is of bounded size once it went through
//     [Iteration.Bounded].
//   - Another identical failing iteration never lowers the level, so that a run
//     that is stuck always comes to an end.
//   - What landed is progress. A run that keeps landing tasks is not stopped,
//     however many iterations it takes.
//   - All text handed in comes from agents and tools, thus hostile. What this
//     package says with it is free of control characters and of the marks by
//     which a run says that it is done; whoever shows it escapes it for his
//     medium.
package supervise
