// Package redact keeps secrets out of what is written where people or agents
// can read it: logs, comments, commit messages, transcripts.
//
// Invariants:
//   - A known secret never leaves a Masker, be it plain, in hex, escaped for
//     an address or for JSON, or in base64 at any alignment, and wherever the
//     border of a chunk falls. Of a key that looks random no 16 characters in a row
//     do.
//   - Neither does a key that is spread over a text of at most 1 MiB that is masked, or
//     looked through, as a whole.
//   - A stream is masked line by line, in bounded memory.
//   - What only looks like a secret (the token forms of GitHub, of models' providers and
//     of others, private keys) is masked too, known or not.
//
// Beside that, [Search] looks for secrets in files that are about to be published.
package redact
