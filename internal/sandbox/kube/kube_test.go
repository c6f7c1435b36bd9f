//go:build kube

package kube_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/org/ralph-action/internal/run"

	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/kube"
	"github.com/org/ralph-action/internal/sandbox/kube/kubetest"
	"github.com/org/ralph-action/internal/sandbox/sandboxtest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	sandboxtest.Run(t, harness())
}

// TestNothingIsReached: see sandboxtest.Confine.
func TestNothingIsReached(t *testing.T) {
	sandboxtest.Confine(t, harness(), func([]string) (sandbox.Sandbox, error) { return open() })
}

func TestCheck(t *testing.T) {
	t.Parallel()
	box, err := kube.New(options())
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCheckRefusesAnOpenNetwork: the pods of the class "open" reach each other and the node,
// where the API server listens.
func TestCheckRefusesAnOpenNetwork(t *testing.T) {
	t.Parallel()
	if err := kubetest.Apply(t.Context(), []byte("{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: open}, "+
		"handler: open}")); err != nil {
		t.Fatal(err)
	}
	o := options()
	o.RuntimeClass = "open"
	box, err := kube.New(o)
	if err != nil {
		t.Fatal(err)
	}
	err = box.Check(t.Context())
	var user *run.UserError
	if !errors.As(err, &user) || !strings.Contains(user.Hint, "NetworkPolicy") {
		t.Fatalf("the check says %v", err)
	}
	for _, want := range []string{"another pod", "the API server"} {
		if !strings.Contains(user.Message, want) {
			t.Errorf("%q does not name %s", user.Message, want)
		}
	}
}

// start starts a script and gives the sandbox and the handle; the test removes it.
func start(t *testing.T, o kube.Options, script string, change func(*sandbox.Spec)) (*kube.Sandbox, sandbox.Handle, error) {
	t.Helper()
	box, err := kube.New(o)
	if err != nil {
		t.Fatal(err)
	}
	spec := sandbox.Spec{
		Argv: []string{"sh", "-c", script}, Image: image, Workspace: sandbox.Workspace{Dir: t.TempDir()},
		RunDir: filepath.Join(t.TempDir(), "run"), WallTimeout: time.Minute, Grace: 200 * time.Millisecond,
	}
	if change != nil {
		change(&spec)
	}
	name := "test-" + strings.ToLower(rand.Text())
	h, err := box.Start(t.Context(), name, spec)
	t.Cleanup(func() {
		gone := sandbox.Handle{Name: name, RunDir: spec.RunDir}
		if err := box.Remove(context.WithoutCancel(t.Context()), gone); err != nil {
			t.Error(err)
		}
	})
	return box, h, err
}

// probe runs a script to its end, and gives its status and what it said.
func probe(t *testing.T, script string, change func(*sandbox.Spec)) (sandbox.Status, string) {
	t.Helper()
	box, h, err := start(t, options(), script, change)
	if err != nil {
		t.Fatal(err)
	}
	st, err := box.Wait(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(filepath.Join(h.RunDir, "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	return st, string(out)
}

// TestConfinement looks from the inside at what a command is given.
func TestConfinement(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, script, want string }{
		{"user", `id -u; id -g; id -G`, "1000\n1000\n1000\n"},
		{
			"capabilities",
			`grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\t' | tr '\n' ' '`,
			"CapInh:0000000000000000 CapPrm:0000000000000000 CapEff:0000000000000000 CapBnd:0000000000000000 " +
				"CapAmb:0000000000000000 NoNewPrivs:1 Seccomp:2 ",
		},
		{
			"read-only root",
			`for d in / /etc /usr /opt /run /var /bin /home /opt/ralph-shim /usr/local/bin; do
				(: >"$d/x") 2>/dev/null && echo "can write $d"; done; (echo >>/opt/ralph-shim/bot) 2>/dev/null && echo bot; echo end`,
			"end\n",
		},
		{
			"home and /tmp are there, with exec",
			`for d in "$HOME" /tmp; do printf '#!/bin/sh\necho ran\n' >$d/x; chmod +x $d/x; $d/x; done`, "ran\nran\n",
		},
		{
			"nothing of the cluster",
			`env | grep -i kubernetes; ls /var/run/secrets /run/secrets 2>/dev/null; cat /etc/resolv.conf | grep -v 127.0.0.1; echo end`,
			"end\n",
		},
		{"nothing is left to forge", `ls -A /run/ralph`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, out := probe(t, tt.script, nil); out != tt.want {
				t.Errorf("got %q, want %q", out, tt.want)
			}
		})
	}
}

// TestRecordCannotBeForged: see docker. The shim's socket takes nobody without the key, and
// cannot be removed.
func TestRecordCannotBeForged(t *testing.T) {
	t.Parallel()
	st, out := probe(t, `
		for f in /proc/1/fd/* /proc/1/cwd /proc/1/root /proc/1/mem /proc/1/environ; do
			(echo forged >>"$f") 2>/dev/null && echo "wrote $f"
			(cat "$f") >/dev/null 2>&1 && echo "read $f"
		done
		for f in stdout stderr record prompt; do echo '{"event":"ended","exit":{"code":0,"reason":"exited"}}' >/run/ralph/$f; done
		for i in 1 2 3; do (head -c 400 /dev/zero; sleep 0.2) | /opt/ralph-shim/bot shim pod tun | head -c 1; done
		for s in HUP QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM STKFLT CONT STOP TSTP TTIN TTOU URG; do
			kill -$s 1 2>/dev/null
		done
		echo survived; exit 9`, nil)
	if out != "kkksurvived\n" {
		t.Errorf("output %q", out)
	}
	if st.ExitCode != 9 || st.Reason != sandbox.ReasonExited {
		t.Errorf("status %+v", st)
	}
}

// TestEnds: what the cluster does to a pod is told in a sentence.
func TestEnds(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		st, _ := probe(t, `head -c 200000000 /dev/zero | tail -c 199999999 >/dev/null; exit 3`,
			func(s *sandbox.Spec) { s.MemoryBytes = 64 << 20 })
		if !st.OOMKilled {
			t.Errorf("status %+v", st)
		}
	})
	t.Run("the pod is deleted", func(t *testing.T) {
		t.Parallel()
		box, h, err := start(t, options(), `echo up; exec sleep 1000`, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := admin(t).CoreV1().Pods(kubetest.Namespace).Delete(t.Context(), "ralph-"+h.Name,
			metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
			t.Fatal(err)
		}
		// Lost, where its shim was fast enough to tell of the signal.
		if st, err := box.Wait(t.Context(), h); err != nil || st.State != sandbox.Missing && st.Reason != sandbox.ReasonLost {
			t.Errorf("status %+v, %v", st, err)
		}
	})
	t.Run("no such image", func(t *testing.T) {
		t.Parallel()
		_, _, err := start(t, options(), `true`, func(s *sandbox.Spec) { s.Image = "127.0.0.1:1/none:1" })
		if !errors.Is(err, sandbox.ErrNoRegistry) || !strings.Contains(err.Error(), "cannot pull the image") {
			t.Errorf("%v", err)
		}
	})
	t.Run("an image of somebody else's choice", func(t *testing.T) {
		t.Parallel()
		o := options()
		o.Image = "test.local/other:1"
		if _, _, err := start(t, o, `true`, nil); !errors.Is(err, sandbox.ErrNoImage) {
			t.Errorf("%v", err)
		}
	})
	t.Run("no place", func(t *testing.T) {
		t.Parallel()
		o := options()
		o.RuntimeClass, o.Patience = "crowded", time.Second
		if err := kubetest.Apply(t.Context(), []byte("{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: "+
			"crowded}, handler: shut, scheduling: {nodeSelector: {not: here}}}")); err != nil {
			t.Fatal(err)
		}
		_, _, err := start(t, o, `true`, nil)
		if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), "the cluster has no place for the pod") {
			t.Errorf("%v", err)
		}
	})
	t.Run("no runtime class", func(t *testing.T) {
		t.Parallel()
		o := options()
		o.RuntimeClass = "none-such"
		_, _, err := start(t, o, `true`, nil)
		var user *run.UserError
		if !errors.As(err, &user) || !strings.Contains(err.Error(), "none-such") {
			t.Errorf("%v", err)
		}
	})
	t.Run("no quota left", func(t *testing.T) {
		t.Parallel()
		const other = "ralph-sandboxes-quota"
		prepared(t, other)
		quotas := admin(t).CoreV1().ResourceQuotas(other)
		w, err := quotas.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		if _, err := quotas.Create(t.Context(), &v1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "none"},
			Spec:       v1.ResourceQuotaSpec{Hard: v1.ResourceList{v1.ResourcePods: resource.MustParse("0")}},
		}, metav1.CreateOptions{}); err != nil && !strings.Contains(err.Error(), "already exists") {
			t.Fatal(err)
		}
		for event := range w.ResultChan() { // until the cluster counts
			if q, ok := event.Object.(*v1.ResourceQuota); ok && len(q.Status.Hard) > 0 {
				break
			}
		}
		o := options()
		o.Kubeconfig, o.Namespace = adminFile(), other
		_, _, err = start(t, o, `true`, nil)
		if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), "quota is used up") {
			t.Errorf("%v", err)
		}
	})
	t.Run("no right", func(t *testing.T) {
		t.Parallel()
		o := options()
		o.Namespace = "default"
		box, err := kube.New(o)
		if err != nil {
			t.Fatal(err)
		}
		err = box.Check(t.Context())
		var user *run.UserError
		if !errors.As(err, &user) || !strings.Contains(user.Message, "may not do") {
			t.Errorf("%v", err)
		}
	})
}

// TestReap: a pod whose run directory is gone is removed, and that of another bot is not.
func TestReap(t *testing.T) {
	t.Parallel()
	ours, theirs := options(), options()
	ours.Installation, theirs.Installation = strings.ToLower(rand.Text()), strings.ToLower(rand.Text())
	box, h, err := start(t, ours, `exec sleep 1000`, nil)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := start(t, theirs, `exec sleep 1000`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := box.Reap(t.Context()); n != 0 || err != nil {
		t.Errorf("reaped %d, %v; want none", n, err)
	}
	if err := os.RemoveAll(h.RunDir); err != nil {
		t.Fatal(err)
	}
	if n, err := other.Reap(t.Context()); n != 0 || err != nil {
		t.Errorf("the other bot reaped %d, %v", n, err)
	}
	if n, err := box.Reap(t.Context()); n != 1 || err != nil {
		t.Errorf("reaped %d, %v; want one", n, err)
	}
}

// TestNoSecretInTheCluster: neither prompt nor environment nor files of a start are in what
// the cluster keeps. Its database is searched as it lies on the disk.
func TestNoSecretInTheCluster(t *testing.T) {
	t.Parallel()
	canary := "canary-" + rand.Text()
	prompt := filepath.Join(t.TempDir(), "prompt")
	if err := os.WriteFile(prompt, []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
	_, out := probe(t, `cat; echo "$SECRET"; cat ~/secret file`, func(s *sandbox.Spec) {
		s.Stdin, s.Env, s.HomeFiles = prompt, map[string]string{"SECRET": canary}, map[string]string{"secret": canary}
		if err := os.WriteFile(filepath.Join(s.Workspace.Dir, "file"), []byte(canary), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if n := strings.Count(out, canary); n != 4 {
		t.Fatalf("the command saw the canary %d times: %q", n, out)
	}
	marker := false
	for _, dir := range []string{"etcd", "logs"} {
		err := filepath.WalkDir(filepath.Join(filepath.Dir(adminFile()), dir), func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil //nolint:nilerr // pods of other tests go meanwhile
			}
			data, err := os.ReadFile(path) // #nosec G304 -- the cluster's
			if err != nil {
				return nil //nolint:nilerr // likewise
			}
			if strings.Contains(string(data), canary) {
				t.Errorf("the canary is in %s", path)
			}
			marker = marker || strings.Contains(string(data), "ralph-sandboxes")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !marker {
		t.Error("the database was not found")
	}
}

func adminFile() string { return filepath.Join(os.Getenv("RALPH_TEST_KUBE"), "admin.kubeconfig") }

// prepared makes a namespace, once it has its default account.
func prepared(t *testing.T, name string) {
	t.Helper()
	if err := kubetest.Apply(t.Context(), []byte("{apiVersion: v1, kind: Namespace, metadata: {name: "+name+"}}")); err != nil {
		t.Fatal(err)
	}
	w, err := admin(t).CoreV1().ServiceAccounts(name).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=default"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	<-w.ResultChan()
}
