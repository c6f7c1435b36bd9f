// Command trim makes the committed copies of GitHub's API descriptions from
// the originals. Run it after package ghsim has learnt to serve something new,
// in the directory internal/ghsim:
//
//	RALPH_OPENAPI=…/generated/api.github.com.json \
//	RALPH_GRAPHQL_SCHEMA=…/schema.graphql go run ./ghsimtest/trim
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/org/ralph-action/internal/ghsim/ghsimtest"
)

func main() {
	if err := run(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "trim:", err)
		os.Exit(1)
	}
}

func run() error {
	openapi, err1 := os.ReadFile(os.Getenv("RALPH_OPENAPI"))       //nolint:gosec // whoever runs this names the file
	schema, err2 := os.ReadFile(os.Getenv("RALPH_GRAPHQL_SCHEMA")) //nolint:gosec // likewise
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	trimmed, err := ghsimtest.TrimGraphQL(string(schema))
	if err != nil {
		return err
	}
	if err := os.WriteFile("schema.graphql", []byte(trimmed), 0o600); err != nil { //nolint:gosec // a fixed name
		return err
	}
	description, err := ghsimtest.TrimOpenAPI(openapi)
	if err != nil {
		return err
	}
	packed, err := ghsimtest.Pack(description)
	if err != nil {
		return err
	}
	return os.WriteFile("ghsimtest/testdata/openapi.json.gz", packed, 0o600) //nolint:gosec // a fixed name
}
