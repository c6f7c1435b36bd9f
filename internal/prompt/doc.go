// Package prompt writes what an agent is told for one iteration.
//
// Its job: put a role template, the task, the plan, the errors of the last
// attempt and what earlier iterations learned into one text, in that order;
// what was learned comes last, where models heed it most.
//
// Invariants:
//   - The same input gives the same text.
//   - Names are put into the template only, once, and literally: a file called
//     "a&b.md" or "${PLAN_FILE}.md" comes out as it is called.
//   - Text that others wrote (issue, agent, gate) stands between lines that
//     carry a nonce it cannot know, and is said to be data.
//   - Neither a template nor a sentence of this package holds a string that
//     the completion detector of package progress accepts.
package prompt
