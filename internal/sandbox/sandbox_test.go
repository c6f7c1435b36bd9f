package sandbox_test

import (
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/sandbox"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *sandbox.Spec, name *string){
		"no command":             func(s *sandbox.Spec, _ *string) { s.Argv = nil },
		"NUL in an argument":     func(s *sandbox.Spec, _ *string) { s.Argv = []string{"a\x00b"} },
		"relative run directory": func(s *sandbox.Spec, _ *string) { s.RunDir = "run" },
		"relative workspace":     func(s *sandbox.Spec, _ *string) { s.Workspace = "." },
		"directory out of it":    func(s *sandbox.Spec, _ *string) { s.Dir = "../x" },
		"relative gateway":       func(s *sandbox.Spec, _ *string) { s.GatewayDir = "gw" },
		"relative cache":         func(s *sandbox.Spec, _ *string) { s.CacheDir = "cache" },
		"relative mount":         func(s *sandbox.Spec, _ *string) { s.Mounts = []sandbox.Mount{{Host: "a", Target: "/a"}} },
		"variable with =":        func(s *sandbox.Spec, _ *string) { s.Env = map[string]string{"A=B": ""} },
		"file not in the home":   func(s *sandbox.Spec, _ *string) { s.HomeFiles = map[string]string{"../x": ""} },
		"unknown policy":         func(s *sandbox.Spec, _ *string) { s.OnOwnerDeath = "x" },
		"name with a slash":      func(_ *sandbox.Spec, name *string) { *name = "a/b" },
		"name like an option":    func(_ *sandbox.Spec, name *string) { *name = "-rm" },
		"empty name":             func(_ *sandbox.Spec, name *string) { *name = "" },
		"long name":              func(_ *sandbox.Spec, name *string) { *name = strings.Repeat("x", 101) },
	} {
		spec, start := sandbox.Spec{Argv: []string{"true"}, RunDir: "/run", Workspace: "/tree"}, "start-1"
		if err := spec.Validate(start); err != nil {
			t.Fatal(err)
		}
		if change(&spec, &start); spec.Validate(start) == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
