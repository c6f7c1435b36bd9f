//go:build kube

package kube_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authentication "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/kube"
	"github.com/org/ralph-action/internal/sandbox/sandboxtest"
)

const (
	// clusterVar names the directory of the cluster that scripts/kube.sh has started.
	clusterVar = "RALPH_TEST_KUBE"
	// botVar tells an owner (see sandboxtest) the kubeconfig that its parent made.
	botVar = "RALPH_TEST_KUBECONFIG"

	namespace = "ralph-sandboxes"
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
			fmt.Fprintln(os.Stderr, "set up the cluster (make test-kube starts one):", err)
			return 1
		}
	}
	return sandboxtest.Main(m, open)
}

// setUp gives the cluster the image and what an operator applies, and becomes the bot.
func setUp(ctx context.Context, dir string) error {
	cluster := os.Getenv(clusterVar)
	if cluster == "" {
		return errors.New(clusterVar + " is not set")
	}
	helper := filepath.Join(dir, "helper")
	tool, err := proc.Look("go")
	if err != nil {
		return err
	}
	if _, err := proc.Run(ctx, proc.Cmd{
		Path: tool, Args: []string{"build", "-o", helper, "./testhelper"}, Env: append(os.Environ(), "CGO_ENABLED=0"),
	}); err != nil {
		return err
	}
	script, err := filepath.Abs("../../../scripts/kube.sh")
	if err != nil {
		return err
	}
	if _, err := proc.Run(ctx, proc.Cmd{
		Path: script, Args: []string{"image", cluster, image, helper}, Env: os.Environ(),
	}); err != nil {
		return err
	}
	admin, err := adminConfig()
	if err != nil {
		return err
	}
	for _, file := range []string{"bot.yaml", "sandboxes.yaml"} {
		if err := apply(ctx, admin, filepath.Join("../../../examples/kubernetes", file)); err != nil {
			return err
		}
	}
	return becomeBot(ctx, admin, filepath.Join(dir, "kubeconfig"))
}

func adminConfig() (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", filepath.Join(os.Getenv(clusterVar), "admin.kubeconfig"))
}

// resources are those of the manifests.
var resources = map[string]schema.GroupVersionResource{
	"Namespace":      {Version: "v1", Resource: "namespaces"},
	"ServiceAccount": {Version: "v1", Resource: "serviceaccounts"},
	"NetworkPolicy":  {Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
	"Role":           {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"RoleBinding":    {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	"RuntimeClass":   {Group: "node.k8s.io", Version: "v1", Resource: "runtimeclasses"},
	"ResourceQuota":  {Version: "v1", Resource: "resourcequotas"},
}

// apply has the API server check and keep the objects of a manifest.
func apply(ctx context.Context, config *rest.Config, file string) error {
	data, err := os.ReadFile(file) // #nosec G304 -- the test's file
	if err != nil {
		return err
	}
	return applyAll(ctx, config, data)
}

func applyAll(ctx context.Context, config *rest.Config, manifest []byte) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		var object unstructured.Unstructured
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		resource, ok := resources[object.GetKind()]
		if !ok {
			return fmt.Errorf("the test knows no kind %q", object.GetKind())
		}
		var of dynamic.ResourceInterface = client.Resource(resource)
		if object.GetNamespace() != "" {
			of = client.Resource(resource).Namespace(object.GetNamespace())
		}
		_, err := of.Apply(ctx, object.GetName(), &object, metav1.ApplyOptions{FieldManager: "test", Force: true})
		if err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

// becomeBot writes a kubeconfig with a token of the bot's service account.
func becomeBot(ctx context.Context, admin *rest.Config, file string) error {
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return err
	}
	token, err := client.CoreV1().ServiceAccounts("ralph").CreateToken(ctx, "ralph-bot",
		&authentication.TokenRequest{Spec: authentication.TokenRequestSpec{ExpirationSeconds: new(int64(7200))}},
		metav1.CreateOptions{})
	if err != nil {
		return err
	}
	// Pods are refused until the namespace has its default account.
	w, err := client.CoreV1().ServiceAccounts(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=default"})
	if err != nil {
		return err
	}
	defer w.Stop()
	<-w.ResultChan()
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x",
		"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],
		"users":[{"name":"u","user":{"token":%q}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}]}`,
		admin.Host, token.Status.Token)
	return errors.Join(os.WriteFile(file, []byte(config), 0o600), os.Setenv(botVar, file))
}

func options() kube.Options {
	return kube.Options{Kubeconfig: os.Getenv(botVar), Namespace: namespace, BotImage: image}
}

func open() (sandbox.Sandbox, error) { return kube.New(options()) }

func client(t testing.TB) *kubernetes.Clientset {
	t.Helper()
	config, err := adminConfig()
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// inside runs a program in the pod of a start, in the work tree.
func inside(ctx context.Context, h sandbox.Handle, argv ...string) (said string, gone bool, err error) {
	config, err := adminConfig()
	if err != nil {
		return "", false, err
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", false, err
	}
	name := "ralph-" + h.Name
	if pod, err := c.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); apierrors.IsNotFound(err) ||
		err == nil && string(pod.UID) != h.ID {
		return "", true, nil
	}
	request := c.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(name).SubResource("exec").
		VersionedParams(&v1.PodExecOptions{
			Container: "command", Stdout: true, Stderr: true,
			Command: append([]string{"/bin/busybox", "sh", "-c", `cd /workspace && exec "$@"`, "sh"}, argv...),
		}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(config, "GET", request.URL().String())
	if err != nil {
		return "", false, err
	}
	var stdout, stderr strings.Builder
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr}); err != nil {
		return "", false, fmt.Errorf("%w: %s", err, stderr.String())
	}
	return stdout.String(), false, nil
}

func harness() sandboxtest.Harness {
	return sandboxtest.Harness{
		Open: open, Helper: "/opt/ralph/bot", Image: image, Inside: inside,
		Port: func(*testing.T) int { return sandbox.DefaultGatewayPort },
	}
}
