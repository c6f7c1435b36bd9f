// Package prompt writes what an agent is told for one iteration.
//
// Its job: put the template of a job and a role, the plan, where the work
// stands, the task, the errors of the last attempt and what earlier iterations
// learned into one text, in that order; what was learned comes last, where
// models heed it most. And read the answer that the text asks for: what the agent
// says of its task ([ReadClaim]), or of a task that it was to look at
// ([ReadVerification]).
//
// Invariants:
//   - The same input gives the same text.
//   - A prompt has at most MaxSize bytes. Each section (sections.tmpl) has one maximum, and
//     their sum fits: no section takes from another.
//   - Names are put into the template only, once, and literally: a file called
//     "a&b.md" or "${PLAN_FILE}.md" comes out as it is called.
//   - Text that others wrote (issue, agent, gate) stands between lines that
//     carry a nonce it cannot know, and is said to be data.
//   - Neither a template nor a sentence of this package holds a string that
//     the completion detector of package progress accepts, or reads as a claim.
//   - What an agent says decides what the host tries next, never that a task is
//     done. What comes back of it is one line of valid UTF-8 within its bound,
//     without control characters.
package prompt
