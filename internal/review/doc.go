// Package review reads what people tell the bot: commands in comments ("/ralph
// stop"), and the conversations on lines of a pull request, of which it decides
// which becomes a task and which has to wait for somebody.
//
// Invariants of commands:
//   - Only the first line of a comment counts, and only where it begins with the
//     command, so that nothing quoted, indented as code, fenced or said further
//     down is one.
//   - The command is plain ASCII to the byte. What merely looks like it, or holds
//     characters that nobody sees, is a comment like any other.
//   - Who may command is not asked here.
//
// Invariants of conversations:
//   - Only what somebody who may write has said is wanted of anybody. The words of
//     others are quoted where such a person asks for them to be followed, and only
//     those that were there when they asked.
//   - Two people who want different things of the same lines are not decided
//     between.
//   - All text that goes on from here is cleaned of what people do not see.
package review
