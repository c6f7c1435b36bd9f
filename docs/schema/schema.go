// Package schema holds the JSON Schemas of the two configuration files, for
// editors. They are made by the tests of package config.
package schema

import _ "embed"

// Repository describes .github/ralph.yml.
//
//go:embed repository.json
var Repository []byte

// Server describes the server's ralph.yaml.
//
//go:embed server.json
var Server []byte
