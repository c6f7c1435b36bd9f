// Package test holds what concerns the program and its documents as a whole.
package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestShimComesUpWithLittle: the program is the shim of every agent and every
// check, so that what our packages make before main costs every start. What they
// allocate is the same on any machine, busy or not; an expression compiled at
// package level (see strs.Lazy) is what most easily adds to it.
func TestShimComesUpWithLittle(t *testing.T) {
	t.Parallel()
	const most = 300 << 10 // bytes; forty expressions in one package once made it two million
	bin := os.Getenv("RALPH_TEST_PROGRAM")
	if bin == "" {
		bin = filepath.Join(t.TempDir(), "bot")
		build(t, bin)
	}
	cmd := exec.CommandContext(t.Context(), bin, "shim") // #nosec G702 -- it only says how it is used
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatal("the shim did something")
	}
	total, packages := 0, 0
	for _, m := range regexp.MustCompile(`(?m)^init (\S+) @.* clock, (\d+) bytes, \d+ allocs$`).FindAllStringSubmatch(string(out), -1) {
		if m[1] != "main" && !strings.HasPrefix(m[1], "github.com/org/ralph-action/") {
			continue
		}
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		packages++
		total += n
	}
	if packages == 0 || total > most {
		t.Errorf("%d packages allocate %d bytes before main, at most %d are meant\n%s", packages, total, most, out)
	}
}

func build(t *testing.T, bin string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "../cmd/bot").CombinedOutput(); err != nil {
		t.Fatalf("build bot: %v\n%s", err, out)
	}
}
