// Package ghsim is a GitHub in one process: what a GitHub App needs of GitHub, over real HTTP, with real git
// repositories behind it. `bot demo` shows the product on it, `bot ghsim` serves it as a development set-up, and the
// tests run against it.
//
// One listener serves
//
//	/api/v3/…              the REST API, where GitHub Enterprise Server has it
//	/api/graphql           the GraphQL API
//	/<owner>/<repo>.git/…  git over smart HTTP, to fetch from bare repositories
//	/<owner>/<repo>/…      pages for people: issues, pull requests, check runs and commits
//	/_sim/…                an admin API: make things, read back what happened
//
// Invariants:
//   - Where GitHub's rules bite an App, they hold here: what a token may do, who may label, what a mutation can
//     express, how long a text may be, who signed a commit, what is a webhook and how it is signed. FIDELITY.md lists
//     them with the test of each, and what differs from GitHub.
//   - Nothing answers that GitHub does not have: REST answers with go-github's structs, GraphQL with what GitHub's
//     schema has. Only what the App asks for is served at all; all else is a 404.
//   - People act through the methods of Sim, whose doors are the admin API and tests; Apps through the APIs.
//   - Commits and trees live in the bare repositories, to which nobody else writes; everything else lives in memory
//     and ends with the process.
//   - One request changes the model at a time. Webhooks leave in order, one goroutine for each hook, after the change
//     that caused them.
package ghsim
