// Package feedback decides what is to be done about what people say on the lines
// of a pull request: which conversation becomes a task, which suggestion is
// applied as it stands, and what has to wait for somebody.
//
// Invariants:
//   - Only what somebody who may write has said is wanted of anybody. The words of
//     others are quoted where such a person asks for them to be followed, and only
//     those that were there when they asked.
//   - Two people who want different things of the same lines are not decided
//     between.
//   - All text that goes on from here is cleaned of what people do not see.
package feedback
