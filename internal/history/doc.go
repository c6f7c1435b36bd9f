// Package history keeps what tasks taught: what worked, what did not, and
// finds it again when a task like that one comes up.
//
// Its job: the form of a lesson, and which lessons are like a task. Package store
// keeps them.
//
// Invariants:
//   - A lesson is small: each text is one line of at most a few hundred bytes,
//     so that a memory never becomes a second log.
//   - Remembering under a key twice keeps the later lesson only, so that a
//     step that is repeated after a crash teaches nothing twice.
//   - Lessons come from agents and from the output of programs. They are
//     data: whoever shows them escapes them, a prompt quotes them.
//   - A memory holds the last MaxLessons lessons; it does not grow for ever.
package history
