package docker

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestFilterOf: the engine's own default gives way to the one we know, whatever its
// age; what an operator gave it stays, and none is given to one that cannot take it.
func TestFilterOf(t *testing.T) {
	t.Parallel()
	for given, ours := range map[string]bool{
		"name=seccomp,profile=default": true, "name=seccomp,profile=builtin": true, "name=seccomp": true,
		"name=seccomp,profile=unconfined":                         true,
		"name=apparmor,name=seccomp;name=seccomp,profile=builtin": true,
		"name=seccomp,profile=/etc/docker/ours.json":              false, "name=apparmor": false, "": false,
	} {
		got, err := filterOf(strings.Split(given, ";"))
		if err != nil || (len(got) == 1) != ours {
			t.Fatalf("%q: %.100q, %v", given, got, err)
		}
		if !ours {
			continue
		}
		text, ok := strings.CutPrefix(got[0], "seccomp=")
		var p struct {
			DefaultAction string
			Syscalls      []struct{ Names []string }
		}
		if err := json.Unmarshal([]byte(text), &p); err != nil || !ok || p.DefaultAction != "SCMP_ACT_ERRNO" {
			t.Fatalf("%.100s: %v", text, err)
		}
		for _, call := range p.Syscalls {
			for _, name := range call.Names {
				if strings.HasPrefix(name, "io_uring") {
					t.Errorf("%s is among those that are named", name)
				}
			}
		}
	}
}
