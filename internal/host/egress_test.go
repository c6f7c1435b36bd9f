package host_test

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/org/ralph-action/internal/agent"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/gateway/egress"
	"github.com/org/ralph-action/internal/gateway/spend"
	"github.com/org/ralph-action/internal/gateway/spend/spendtest"
	"github.com/org/ralph-action/internal/host"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
)

// TestWayOut: agents and checks are told of the proxy where the run may reach
// anything, each with a token of its own, and what they met there is reported.
func TestWayOut(t *testing.T) {
	t.Parallel()
	operator := egress.List{"preset:npm", "*.host.example"}
	for name, tt := range map[string]struct {
		operator   egress.List
		repository []string
		want       []string
	}{
		"none":           {},
		"the operator's": {operator: operator, want: operator},
		"the repository's": {
			operator: operator, repository: []string{"a.host.example"}, want: []string{"a.host.example"},
		},
		"the repository wants none": {operator: operator, repository: []string{}},
		"the repository's alone":    {repository: []string{"a.host.example"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledger := spendtest.Open(t, t.TempDir())
			meter := spend.NewMeter(ledger, run.ListPrices())
			s := loop.NewState(loop.Request{Run: "r1", Settings: loop.Settings{Egress: tt.repository}}, time.Now())
			s.TaskID = "T1"
			open := func() (*host.Host, *box) {
				b := &box{ended: make(chan struct{})}
				h := host.New(host.Config{
					Dir: filepath.Join(t.TempDir(), "run"), Source: newSource(t, map[string]string{"README": "hello\n"}), Sandbox: b,
					Backend: talker{result: agent.Result{Outcome: agent.OutcomeCompleted, Usage: run.Usage{Turns: 7}}},
					Limits:  func(asked run.Limits) run.Limits { return asked },
					Gateway: &host.Gateway{
						Dir: "/gw", NoModels: true, Meter: meter, Egress: tt.operator,
						ProxyToken: func(start string) string { return "pass-of-" + start },
					},
				})
				opened, err := h.Open(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				s.HeadTree = opened.HeadTree
				return h, b
			}
			check := func(b *box, start string) {
				t.Helper()
				proxy := ""
				if tt.want != nil {
					proxy = "http://ralph:pass-of-" + start + "@127.0.0.1:17645"
				}
				for _, variable := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
					if got := b.spec.Env[variable]; got != proxy {
						t.Errorf("%s=%q, want %q", variable, got, proxy)
					}
				}
				if _, err := url.Parse(proxy); err != nil {
					t.Error(err)
				}
				if got := b.spec.Env["NO_PROXY"]; strings.Contains(got, "127.0.0.1") != (tt.want != nil) ||
					got != b.spec.Env["no_proxy"] {
					t.Errorf("NO_PROXY=%q", got)
				}
				known, err := meter.Start(t.Context(), start)
				if diff := cmp.Diff(tt.want, known.Hosts, cmpopts.EquateEmpty()); diff != "" ||
					(err != nil) != (start == "r1-2" && tt.want == nil) {
					t.Errorf("%v\n%s", err, diff)
				}
			}
			met := func(start string) []run.HostUse {
				t.Helper()
				if tt.want == nil {
					return nil
				}
				if err := meter.Block(t.Context(), start, "evil.example", "why"); err != nil {
					t.Fatal(err)
				}
				return []run.HostUse{{Host: "evil.example", Blocked: "why", Count: 1}}
			}

			h, b := open()
			handle, err := h.StartAgent(t.Context(), s, agentStart("r1-1"))
			if err != nil {
				t.Fatal(err)
			}
			check(b, "r1-1")
			hosts := met("r1-1")
			b.end(sandbox.Status{Reason: sandbox.ReasonExited})
			status, err := h.ObserveAgent(t.Context(), handle)
			if diff := cmp.Diff(hosts, status.Hosts); diff != "" || err != nil || status.Usage.Turns != 7 {
				t.Errorf("%+v %v\n%s", status, err, diff)
			}

			h, b = open()
			handle, err = h.StartGate(t.Context(), s, loop.GateStart{
				Name: "r1-2", Gate: gate.Gate{Command: "true", Timeout: time.Minute}, Tree: s.HeadTree,
			})
			if err != nil {
				t.Fatal(err)
			}
			check(b, "r1-2")
			if (b.spec.GatewayDir != "") != (tt.want != nil) {
				t.Errorf("the check has the gateway %q", b.spec.GatewayDir)
			}
			hosts = met("r1-2")
			b.end(sandbox.Status{Reason: sandbox.ReasonExited})
			result, err := h.ObserveGate(t.Context(), handle)
			if diff := cmp.Diff(hosts, result.Hosts); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
			for _, start := range []string{"r1-1", "r1-2"} {
				if _, err := meter.Start(t.Context(), start); err == nil {
					t.Errorf("the token of %s is still good", start)
				}
			}
			if slices.ContainsFunc(b.spec.Argv, func(arg string) bool { return strings.Contains(arg, "pass-of") }) {
				t.Errorf("a token in %v", b.spec.Argv)
			}
		})
	}
}
