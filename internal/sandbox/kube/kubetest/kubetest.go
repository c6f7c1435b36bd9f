// Package kubetest makes the cluster that scripts/kube.sh has started one that an operator
// has prepared.
package kubetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

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
)

// Namespace is that of the sandboxes, as the manifests name it.
const Namespace = "ralph-sandboxes"

// clusterVar names the directory of the cluster that scripts/kube.sh has started.
const clusterVar = "RALPH_TEST_KUBE"

// SetUp gives the cluster an image with the program as its entry point, and what an operator
// applies, and writes a kubeconfig of the bot's account. root is that of the repository.
func SetUp(ctx context.Context, root, image, program, kubeconfig string) error {
	cluster := os.Getenv(clusterVar)
	if cluster == "" {
		return errors.New(clusterVar + " is not set: make test-kube starts a cluster")
	}
	script, err := filepath.Abs(filepath.Join(root, "scripts/kube.sh"))
	if err != nil {
		return err
	}
	if _, err := proc.Run(ctx, proc.Cmd{
		Path: script, Args: []string{"image", cluster, image, program}, Env: os.Environ(),
	}); err != nil {
		return err
	}
	for _, file := range []string{"bot.yaml", "sandboxes.yaml"} {
		data, err := os.ReadFile(filepath.Join(root, "examples/kubernetes", file)) // #nosec G304 -- of the repository
		if err == nil {
			err = Apply(ctx, data)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return becomeBot(ctx, kubeconfig)
}

// Admin is who may do everything in the cluster.
func Admin() (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", filepath.Join(os.Getenv(clusterVar), "admin.kubeconfig"))
}

// resources are those of the manifests.
var resources = map[string]schema.GroupVersionResource{
	"Namespace":             {Version: "v1", Resource: "namespaces"},
	"ServiceAccount":        {Version: "v1", Resource: "serviceaccounts"},
	"NetworkPolicy":         {Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
	"Role":                  {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"RoleBinding":           {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	"Deployment":            {Group: "apps", Version: "v1", Resource: "deployments"},
	"Service":               {Version: "v1", Resource: "services"},
	"PersistentVolumeClaim": {Version: "v1", Resource: "persistentvolumeclaims"},
	"ConfigMap":             {Version: "v1", Resource: "configmaps"},
	"RuntimeClass":          {Group: "node.k8s.io", Version: "v1", Resource: "runtimeclasses"},
	"ResourceQuota":         {Version: "v1", Resource: "resourcequotas"},
}

// Apply has the API server check and keep the objects of a manifest.
func Apply(ctx context.Context, manifest []byte) error {
	config, err := Admin()
	if err != nil {
		return err
	}
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
func becomeBot(ctx context.Context, file string) error {
	admin, err := Admin()
	if err != nil {
		return err
	}
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
	w, err := client.CoreV1().ServiceAccounts(Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=default"})
	if err != nil {
		return err
	}
	defer w.Stop()
	<-w.ResultChan()
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x",
		"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],
		"users":[{"name":"u","user":{"token":%q}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}]}`,
		admin.Host, token.Status.Token)
	return os.WriteFile(file, []byte(config), 0o600)
}

// Inside runs a program in the pod of a start, in the work tree.
func Inside(ctx context.Context, h sandbox.Handle, argv ...string) (said string, gone bool, err error) {
	config, err := Admin()
	if err != nil {
		return "", false, err
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", false, err
	}
	name := "ralph-" + h.Name
	if pod, err := c.CoreV1().Pods(Namespace).Get(ctx, name, metav1.GetOptions{}); apierrors.IsNotFound(err) ||
		err == nil && string(pod.UID) != h.ID {
		return "", true, nil
	}
	request := c.CoreV1().RESTClient().Post().Resource("pods").Namespace(Namespace).Name(name).SubResource("exec").
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
