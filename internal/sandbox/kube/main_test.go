//go:build kube

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/kube"
	"github.com/org/ralph-action/internal/sandbox/kube/kubetest"
	"github.com/org/ralph-action/internal/sandbox/kube/podshim"
	"github.com/org/ralph-action/internal/sandbox/sandboxtest"
)

const (
	// botVar tells an owner (see sandboxtest) the kubeconfig that its parent made.
	botVar = "RALPH_TEST_KUBECONFIG"
	// image is the bot's image and that of commands.
	image = "test.local/helper:1"
)

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if os.Getenv(botVar) == "" {
		dir, err := os.MkdirTemp("", "kube")
		if err == nil {
			defer func() { _ = os.RemoveAll(dir) }()
			err = setUp(context.Background(), dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "set up the cluster:", err)
			return 1
		}
	}
	return sandboxtest.Main(m, open)
}

// setUp becomes the bot of a cluster that has the helper for an image.
func setUp(ctx context.Context, dir string) error {
	helper, kubeconfig := filepath.Join(dir, "helper"), filepath.Join(dir, "kubeconfig")
	tool, err := proc.Look("go")
	if err != nil {
		return err
	}
	if _, err := proc.Run(ctx, proc.Cmd{
		Path: tool, Args: []string{"build", "-o", helper, "./testhelper"}, Env: append(os.Environ(), "CGO_ENABLED=0"),
	}); err != nil {
		return err
	}
	return errors.Join(kubetest.SetUp(ctx, "../../..", image, helper, kubeconfig), os.Setenv(botVar, kubeconfig))
}

func options() kube.Options {
	return kube.Options{Kubeconfig: os.Getenv(botVar), Namespace: kubetest.Namespace, BotImage: image}
}

func open() (sandbox.Sandbox, error) { return kube.New(options()) }

func harness() sandboxtest.Harness {
	return sandboxtest.Harness{
		Open: open, Helper: podshim.Program, Image: image, Inside: kubetest.Inside,
		Port: func(*testing.T) int { return sandbox.DefaultGatewayPort },
	}
}

// admin may do everything in the cluster.
func admin(t testing.TB) *kubernetes.Clientset {
	t.Helper()
	config, err := kubetest.Admin()
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
