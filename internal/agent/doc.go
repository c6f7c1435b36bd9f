// Package agent knows the agent command lines: how each is called (argv,
// environment, credentials, mounts) and what its output stream means. It starts
// nothing itself; a sandbox does, and feeds the stream to a Parser.
//
// Invariants:
//
//   - The prompt goes to the agent's standard input, never into argv: one
//     argument is limited to 128 KiB on Linux and visible to every process.
//   - A parser never fails. A line that is not understood, cut off or too long
//     costs that line only, and memory stays bounded whatever the agent prints.
//   - What went wrong is read from structured fields (status codes, error
//     names), and from words only where something reports itself as an error and
//     begins with them: a diff that mentions rate limits is not a rate limit. What
//     is not known, and comes before any work, is a wait.
//   - All text is what the agent wrote, thus hostile. Control characters are
//     taken out here; whoever shows it escapes it for his medium.
//
// Names lists the back ends. Claude Code, Amp and Codex are read by their own streams.
// acp is any program that speaks the Agent Client Protocol; an installed command line
// that does is a preset of it, in a file of its own (opencode.go) that Lookup names.
// command is any program that reads a prompt, and script a scripted agent that runs as a
// real process, does real work and can misbehave on demand.
package agent
