// Package gate says which checks a proposal must pass before it lands, and
// what a failed one means for the next attempt.
//
// It runs nothing itself: a host starts each command in a clean sandbox on the
// exact tree that is proposed and hands the outcome back.
//
// Invariants:
//   - Pure: no clock, no processes, no files but those handed in.
//   - A gate passes on exit code 0 and on nothing else. One that failed holds the
//     work back unless [Judge] says why not, and then people are told.
//   - What a program printed is only compared, with itself on another tree. A
//     gate that was green before is held to its exit code, but for the share of
//     tests that the repository itself lets fail.
//   - Gates of the base can be added to by a proposal, never taken away.
package gate
