package kube

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/internal/rundir"
	"github.com/org/ralph-action/internal/sandbox/kube/podshim"
)

// Defaults of Options and of Spec.
const (
	DefaultUID         = 1000
	DefaultMemoryBytes = 4 << 30
	// DefaultPatience is how long Start waits for a pod to run: the cluster may have to
	// pull an image, or to add a node.
	DefaultPatience = 5 * time.Minute
)

// Name is the sandbox's name.
const Name = "kubernetes"

// Options configure the sandbox.
type Options struct {
	// Kubeconfig names the file that says where the cluster is; "" means the one that
	// this process runs in.
	Kubeconfig string
	// Namespace is that of the pods, and of nothing else.
	Namespace string
	// BotImage is the image whose entry point is this version of the bot's program.
	BotImage string
	// Image is the only one that commands may run in, since the cluster would pull any; ""
	// means any.
	Image string
	// RuntimeClass is that of the pods, "" for the cluster's default.
	RuntimeClass string
	// UserNamespaces gives each pod users of its own, where the cluster can.
	UserNamespaces bool
	// Installation is the bot's own mark on its pods, by which Reap finds those of dead
	// runs; "" marks none.
	Installation string
	// Patience bounds the wait for a pod to run; 0 is the default.
	Patience time.Duration
}

// Sandbox implements sandbox.Sandbox with pods.
type Sandbox struct {
	opts   Options
	config *rest.Config
	core   *corev1.CoreV1Client

	mu sync.Mutex
	// links are the ways to the pods that this process has to do with.
	links map[rundir.Dir]*link
}

var _ sandbox.Sandbox = (*Sandbox)(nil)

// New makes the sandbox. It does not talk to the cluster; see Check.
func New(o Options) (*Sandbox, error) {
	config, err := clusterOf(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	switch {
	case o.Namespace == "":
		return nil, errors.New("kubernetes sandbox: no namespace")
	case o.BotImage == "":
		return nil, errors.New("kubernetes sandbox: no image of the bot")
	}
	o.Patience = cmp.Or(o.Patience, DefaultPatience)
	// A pod takes a handful of requests; the defaults are for controllers.
	config.QPS, config.Burst = 50, 200
	config.UserAgent = "ralph-bot"
	core, err := corev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubernetes sandbox: %w", err)
	}
	return &Sandbox{opts: o, config: config, core: core, links: map[rundir.Dir]*link{}}, nil
}

func clusterOf(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, &run.UserError{
				Message: "the bot does not run in a Kubernetes cluster, and no other one is named",
				Hint:    "set sandbox.kubernetes.kubeconfig to the file that says where the cluster is", Err: err,
			}
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, &run.UserError{
			Message: "the kubeconfig " + kubeconfig + " cannot be used", Hint: "try it with kubectl --kubeconfig " + kubeconfig +
				" get pods", Err: err,
		}
	}
	return config, nil
}

// About implements sandbox.Sandbox.
func (s *Sandbox) About() sandbox.About {
	return sandbox.About{Name: Name, Reap: s.Reap, Apart: true}
}

// noted is what this machine keeps about a start.
type noted struct {
	// Key is for the shim.
	Key podshim.Key `json:"key"`
	// UID is the pod's, once there is one.
	UID string `json:"uid,omitempty"`
	// Committed is set before the command is asked to start.
	Committed bool `json:"committed,omitempty"`
	// GatewayDir is the directory of the gateway's socket.
	GatewayDir string `json:"gateway_dir,omitempty"`
	// Trees are directories here by what they are called in the pod.
	Trees map[string]string `json:"trees"`
	// Home says that all of it is here, and that the pod is not needed any more.
	Home bool `json:"home,omitempty"`
	// Lost is how the pod ended, where the shim has not recorded it.
	Lost *lost `json:"lost,omitempty"`
}

// lost is the end of a pod.
type lost struct {
	Detail string    `json:"detail"`
	OOM    bool      `json:"oom,omitempty"`
	At     time.Time `json:"at"`
}

const noteFile = "note.json"

// notes is the part of a run directory that is this sandbox's. Its lock is held by whoever
// brings something home.
func notes(d rundir.Dir) rundir.Dir { return rundir.Dir(d.Path(Name)) }

func readNote(d rundir.Dir) (noted, error) {
	var n noted
	_, err := notes(d).Read(noteFile, &n)
	return n, err
}

func (n noted) write(d rundir.Dir) error { return notes(d).Write(noteFile, n) }

// find gives the directory of a handle and whether it is that of a start.
func find(h sandbox.Handle) (rundir.Dir, bool, error) {
	if h.Node != "" {
		return "", false, fmt.Errorf("%w: it is %s, and this sandbox has none", sandbox.ErrOtherNode, h.Node)
	}
	d := rundir.Dir(h.RunDir)
	start, found, err := d.Started()
	return d, found && start.Name == h.Name, err
}

// podName is the name of a start's pod. Not every name of a start could be one.
func podName(name string) string {
	if pod := "ralph-" + name; len(validation.IsDNS1123Subdomain(pod)) == 0 {
		return pod
	}
	return fmt.Sprintf("ralph-%x", sha256.Sum256([]byte(name)))
}

// Prepare implements sandbox.Sandbox. The tree is the bot's own: the command gets a copy.
func (s *Sandbox) Prepare(_ context.Context, tree string) (sandbox.Workspace, error) {
	if err := checkDir(tree); err != nil {
		return sandbox.Workspace{}, fmt.Errorf("prepare work tree: %w", err)
	}
	return sandbox.Workspace{Dir: tree}, nil
}

// Collect implements sandbox.Sandbox. What came home is readable.
func (s *Sandbox) Collect(_ context.Context, w sandbox.Workspace) (string, error) {
	if err := checkDir(w.Dir); err != nil {
		return "", fmt.Errorf("collect work tree: %w", err)
	}
	return w.Dir, nil
}
