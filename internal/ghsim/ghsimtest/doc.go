// Package ghsimtest holds a simulated GitHub against the real one's own words:
// every REST request, answer and webhook against GitHub's OpenAPI description,
// every GraphQL operation against its published schema.
//
// The committed copies of both (testdata, and schema.graphql of package ghsim)
// hold only what is served, so that plain `go test` needs no download. With
// RALPH_OPENAPI and RALPH_GRAPHQL_SCHEMA naming the originals, as `make test`
// does, the validation reads those instead, and a test makes sure that the
// copies are still exactly what the trimming makes of them.
//
// The originals are the npm packages @octokit/openapi 23.0.2
// (generated/api.github.com.json) and @octokit/graphql-schema 15.26.1
// (schema.graphql). Both are MIT licensed; testdata/LICENSE keeps their notices.
package ghsimtest
