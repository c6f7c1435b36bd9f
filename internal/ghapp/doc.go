// Package ghapp is the only package that talks to GitHub. It speaks for one
// GitHub App, one repository at a time, in the words of this project: no type
// of go-github leaves it.
//
// Invariants:
//   - Every token is scoped to one repository and to the permissions its
//     purpose needs: reading, writing and check runs use different tokens. One
//     that says which repositories there are can do nothing but that. A
//     token is sent to the API host it was minted by, and nowhere else.
//   - Of an installation's writes ten go at once and then one a second, as GitHub asks
//     for; one that would have to wait for long is given back, and told when to come back.
//   - Nothing here repeats a call, but where it was refused with 401: that mints a new
//     token and tries once more. Callers ask Classify what an error means and when to
//     come back.
//   - What a person could forge is not trusted: "ours" means the numeric id of
//     the App's own bot user, never a login, a suffix or a marker in a text.
//   - A commit is reported as verified only where GitHub says so itself.
//
// REST goes through go-github v60 with tokens minted by ghinstallation. The
// GraphQL documents have a call of their own (graphql.go): githubv4 drops
// the error type, the status and the headers, without which a stale head
// cannot be told from a rate limit.
package ghapp
