package kube

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/kube/podshim"
)

const (
	// checkTime bounds the wait for a cluster that does not answer.
	checkTime = 15 * time.Second
	// probeLife is how long a probe may live where its bot has died.
	probeLife = 10 * time.Minute
	// probeTries is how often a pod is given time to begin to listen.
	probeTries = 10
)

// Check implements sandbox.Sandbox: the cluster answers, the bot may do what it has to,
// pods like those of commands run, and reach nothing.
func (s *Sandbox) Check(ctx context.Context) error {
	if err := s.answers(ctx); err != nil {
		return s.checkError(err)
	}
	reached, err := s.probe(ctx)
	if err != nil {
		return s.checkError(err)
	}
	if len(reached) == 0 {
		return nil
	}
	var all []string
	for _, r := range reached {
		all = append(all, fmt.Sprintf("%s (%s)", r.What, r.Said))
	}
	return &run.UserError{
		Message: "pods in the namespace " + s.opts.Namespace + " reach what no agent may: " + strings.Join(all, ", "),
		Hint: "apply examples/kubernetes/sandboxes.yaml, and see that the cluster's network plugin enforces " +
			"NetworkPolicy, for egress, too",
	}
}

func (s *Sandbox) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	_, err := s.core.Pods(s.opts.Namespace).List(ctx, metav1.ListOptions{Limit: 1})
	return err
}

// checkError is for a person at start-up, who can do something about a cluster that is away.
func (s *Sandbox) checkError(err error) error {
	switch explained := explain(err); {
	case isNoRight(err):
		return &run.UserError{
			Message: "the bot may not do in the cluster what it has to",
			Hint:    "apply examples/kubernetes/sandboxes.yaml, which binds it to its role in the namespace " + s.opts.Namespace, Err: err,
		}
	case away(err):
		return &run.UserError{
			Message: "no Kubernetes API server answers at " + s.config.Host,
			Hint:    "see that the kubeconfig names the right cluster, and that it runs", Err: err,
		}
	case errors.Is(explained, sandbox.ErrUnavailable), errors.Is(explained, sandbox.ErrNoRegistry):
		return &run.UserError{
			Message: "a pod that tries what pods can reach does not run: " + err.Error(),
			Hint:    "see what the cluster says of the pods in the namespace " + s.opts.Namespace, Err: err,
		}
	default:
		return explained
	}
}

// probe runs two pods and says what one of them reached.
func (s *Sandbox) probe(ctx context.Context) (_ []podshim.Reached, err error) {
	id := strings.ToLower(rand.Text())
	var pods []*v1.Pod
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTime)
		defer cancel()
		for _, p := range pods {
			err = errors.Join(err, s.delete(ctx, p.Name, p.UID, 0))
		}
	}()
	for i := range 2 {
		wanted, err := s.probePod("probe-" + strconv.Itoa(i) + "-" + id)
		if err != nil {
			return nil, err
		}
		pod, err := s.core.Pods(s.opts.Namespace).Create(ctx, wanted, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		pods = append(pods, pod)
	}
	for i, p := range pods {
		if err := s.await(ctx, p); err != nil {
			return nil, err
		}
		if pods[i], err = s.core.Pods(s.opts.Namespace).Get(ctx, p.Name, metav1.GetOptions{}); err != nil {
			return nil, err
		}
	}
	// A probe that saw nothing at all would praise any cluster. So each pod has to reach
	// itself first, the one that listens for the other, too.
	if _, err := s.probeFrom(ctx, pods[1].Name, nil); err != nil {
		return nil, err
	}
	return s.probeFrom(ctx, pods[0].Name, s.targets(pods[1].Status.PodIPs))
}

// probeFrom says which targets a pod reaches.
func (s *Sandbox) probeFrom(ctx context.Context, pod string, targets []podshim.Target) ([]podshim.Reached, error) {
	itself := podshim.Target{What: "itself", Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(podshim.ProbePort))}
	argv := []string{podshim.Program, "shim", "pod", "probe"}
	for _, t := range append(targets, itself) {
		arg, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		argv = append(argv, string(arg))
	}
	for range probeTries {
		e := s.exec(ctx, pod, argv...)
		said, readErr := io.ReadAll(e)
		_ = e.Close()
		if err := e.failure(); err != nil {
			return nil, fmt.Errorf("run a probe: %w", err)
		}
		var reached []podshim.Reached
		if err := errors.Join(readErr, json.Unmarshal(said, &reached)); err != nil {
			return nil, fmt.Errorf("read what a probe says: %w", err)
		}
		others := slices.DeleteFunc(reached, func(r podshim.Reached) bool { return r.Target == itself })
		if len(others) < len(reached) {
			return others, nil
		}
		select { // it is about to listen
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(retryPause):
		}
	}
	return nil, fmt.Errorf("%w: a probe does not reach itself", sandbox.ErrUnavailable)
}

// probePod is a pod like that of a start, but for what its first process does, and that it
// is told where the cluster's name server is.
func (s *Sandbox) probePod(name string) (*v1.Pod, error) {
	p, err := s.pod(name, sandbox.Spec{Image: s.opts.BotImage, MemoryBytes: memoryAsked, DiskBytes: 1})
	if err != nil {
		return nil, err
	}
	p.Spec.Containers[0].Command = []string{podshim.Program, "shim", "pod", "listen"}
	p.Spec.DNSPolicy, p.Spec.DNSConfig = v1.DNSClusterFirst, nil
	p.Spec.ActiveDeadlineSeconds = new(int64(probeLife / time.Second))
	p.Annotations = map[string]string{annotationStart: name}
	return p, nil
}

// targets are what no pod may reach.
func (s *Sandbox) targets(others []v1.PodIP) []podshim.Target {
	all := []podshim.Target{
		{What: "the cluster's name server", Kind: "dns"},
		{What: "the API server", Kind: "api"},
		{What: "the metadata service of the cloud", Address: "169.254.169.254:80"},
		{What: "the Internet", Address: "1.1.1.1:443"},
		{What: "the Internet", Address: "[2606:4700:4700::1111]:443"},
		{What: "a name server of the Internet", Kind: "dns", Address: "8.8.8.8:53"},
	}
	if u, err := url.Parse(s.config.Host); err == nil && u.Hostname() != "" {
		port := u.Port()
		if port == "" {
			port = "443"
		}
		all = append(all, podshim.Target{What: "the API server", Address: net.JoinHostPort(u.Hostname(), port)})
	}
	for _, ip := range others {
		all = append(all, podshim.Target{
			What: "another pod", Address: net.JoinHostPort(ip.IP, strconv.Itoa(podshim.ProbePort)),
		})
	}
	return all
}
