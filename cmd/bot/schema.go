package main

import (
	"fmt"

	"github.com/org/ralph-action/docs/schema"
)

// schemaCmd is `bot schema`.
type schemaCmd struct {
	File string `arg:"" optional:"" enum:"repository,server" default:"repository" help:"Which file: repository (.github/ralph.yml) or server (ralph.yaml)."`
}

// Run prints a JSON Schema.
func (c *schemaCmd) Run(io stdio) error {
	text := schema.Repository
	if c.File == "server" {
		text = schema.Server
	}
	if _, err := io.out.Write(text); err != nil {
		return fmt.Errorf("print the schema: %w", err)
	}
	return nil
}
