package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEnvironmentSecrets: what is named like a secret, and passwords in addresses that
// checks or agents may print.
func TestEnvironmentSecrets(t *testing.T) {
	t.Parallel()
	got := environmentSecrets([]string{
		"API_KEY=0123456789", "SHORT_KEY=x", "SSH_KEY=/home/ada/.ssh/id", "HOME=/home/ada",
		"GOPROXY=https://ada:one-of-go@proxy.example,direct", "https_proxy=http://ada:two-of-all@proxy.example",
		"PIP_INDEX_URL=https://three-as-token@index.example/simple", "DATABASE_URL=postgres://postgres:postgres@localhost/x",
	})
	if diff := cmp.Diff([]string{"0123456789", "one-of-go", "two-of-all", "three-as-token"}, got); diff != "" {
		t.Error(diff)
	}
}
