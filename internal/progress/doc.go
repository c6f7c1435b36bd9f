// Package progress reads, edits and judges progress.md, the one file that says
// where a run stands.
//
// Its job: find sections and tasks in a Markdown file with a real Markdown
// parser, change single places of it, tell what an agent may have changed from
// what it may not, and move the file in and out of an agent's work tree
// without being led astray there. [Doc.PlanSHA256] tells whether a plan is
// still the one that was approved.
//
// What is read is what people write: sections by the names that other systems
// give them, tasks in any kind of list and in groups by heading, acceptance
// criteria as bullets or as check boxes below a task, what a task depends on,
// and what else it says there: steps, files, commands that verify it, and the
// subject of its commit. The files in testdata show each form and what becomes of it.
//
// Invariants:
//   - Nothing is a command to run but what stands in backticks behind "Verify:", and no
//     agent changes those of a task that is there.
//   - The parser gives positions; edits splice the original bytes. Nothing is
//     ever rendered anew, so what a person wrote survives to the byte,
//     line endings included.
//   - Every edit is one splice and one parse; a tick is one byte.
//   - Every edit leaves a document that parses to the same sections and tasks
//     but for the one thing that was asked for. Text from an agent or a gate
//     that goes in through an edit cannot add headings, check boxes, a
//     completion marker, or open a code fence or comment that swallows what
//     follows.
//   - Ids are the host's. A new task never gets one that occurs anywhere in the
//     document, and a task keeps its own however it is moved or renamed.
//   - [Parse] takes bounded time on hostile input: size and nesting are capped.
//   - What lies between two versions of a document is told by [Diff] alone. [Judge] starts
//     from the host's own copy and enters what the agent did to the one that it found, as far
//     as it may, by our own edits; a document that an agent wrote is never used as it came.
//   - [Merge] starts from the bytes of the person's version. Neither it nor [Judge] makes
//     up a tick or loses a task that nobody removed, and where the host's edit has to give
//     way, a sentence says so.
//   - [Read] opens nothing but a regular file with a single name, below the
//     root, with no symbolic link on the way.
package progress
