// Package test holds what concerns the test suites as a whole.
package test

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// suites are the build constraints that scripts/test.sh runs, besides none at all,
// and what each of them needs. Only make live-check runs live: GitHub itself and
// somebody's App are not to be had by every change.
var suites = map[string]string{
	"docker":           "a Docker engine, and docker compose or docker-compose",
	"claude":           "Claude Code",
	"docker && claude": "a Docker engine and Claude Code",
	"act":              "act",
	"clis":             "the other agents' command lines",
	"kube":             "a Kubernetes cluster, which scripts/test-kube.sh starts",
	"live":             "an App on GitHub",
	"docker && clis":   "a Docker engine and all the agents' command lines",
	"release":          "goreleaser",
}

// platforms may stand alone in a constraint: the file is run where it can be.
var platforms = []string{"linux", "darwin", "unix", "!windows"}

// TestEverySuiteIsRun: a test file behind a constraint that no make target
// sets would be run by nobody. It also says, with -v, what a plain go test
// leaves out.
func TestEverySuiteIsRun(t *testing.T) {
	t.Parallel()
	leftOut := map[string][]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		constraint, err := buildConstraint(path)
		if err != nil || constraint == "" || slices.Contains(platforms, constraint) {
			return err
		}
		if _, ok := suites[constraint]; !ok {
			t.Errorf("%s is behind %q, which nothing runs; use one of %v", path, constraint, suites)
		}
		leftOut[constraint] = append(leftOut[constraint], path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for constraint, files := range leftOut {
		t.Logf("left out without %s: %v", suites[constraint], files)
	}
	for _, name := range []string{"RALPH_OPENAPI", "RALPH_GRAPHQL_SCHEMA"} {
		if os.Getenv(name) == "" {
			t.Logf("left out without %s: checking simulated traffic against GitHub's own description", name)
		}
	}
	if os.Getenv("RALPH_WEBHOOK_EXAMPLES") == "" {
		t.Log("left out without RALPH_WEBHOOK_EXAMPLES: taking in all of GitHub's own examples of webhooks")
	}
}

// buildConstraint is the expression of a file's //go:build line, or "".
func buildConstraint(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if expr, ok := strings.CutPrefix(lines.Text(), "//go:build "); ok {
			return expr, nil
		}
		if strings.HasPrefix(lines.Text(), "package ") {
			break
		}
	}
	return "", lines.Err()
}
