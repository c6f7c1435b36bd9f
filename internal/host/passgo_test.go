package host_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
)

// localBox is a box on this machine.
type localBox struct{ *box }

func (localBox) About() sandbox.About { return sandbox.About{Name: agent.SandboxLocal} }

// TestChecksDoNotSeeWhoLogsIn: a check runs what an agent wrote, and gets the addresses
// of proxies without the passwords in them.
func TestChecksDoNotSeeWhoLogsIn(t *testing.T) {
	t.Setenv("GOPROXY", "https://ada:s3cret-of-the-proxy@proxy.example,direct")
	t.Setenv("GOFLAGS", "-mod=mod")
	b := &box{ended: make(chan struct{})}
	h := host.New(host.Config{
		Dir: filepath.Join(t.TempDir(), "run"), Source: newSource(t, map[string]string{"README": "hello\n"}),
		Sandbox: localBox{b}, Backend: talker{}, Limits: func(asked run.Limits) run.Limits { return asked },
	})
	s := loop.State{Request: loop.Request{Run: "r1"}}
	opened, err := h.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.StartGate(t.Context(), s, loop.GateStart{
		Name: "r1-1", Gate: gate.Gate{Command: "true", Timeout: time.Minute}, Tree: opened.HeadTree,
	}); err != nil {
		t.Fatal(err)
	}
	if got := b.spec.Env["GOPROXY"]; got != "https://proxy.example,direct" || slices.Contains(b.spec.PassEnv, "GOPROXY") {
		t.Errorf("GOPROXY is %q, handed on by name: %v", got, b.spec.PassEnv)
	}
	if !slices.Contains(b.spec.PassEnv, "GOFLAGS") {
		t.Errorf("GOFLAGS is not handed on: %v", b.spec.PassEnv)
	}
}
