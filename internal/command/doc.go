// Package command reads what a person tells the bot in a comment: "/ralph stop".
//
// Invariants:
//   - Only the first line of a comment counts, and only where it begins with the
//     command, so that nothing quoted, indented as code, fenced or said further
//     down is one.
//   - The command is plain ASCII to the byte. What merely looks like it, or holds
//     characters that nobody sees, is a comment like any other.
//   - Who may command is not asked here.
package command
