//go:build unix

package main

import (
	"context"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/machine"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/docker"
	"github.com/org/ralph-action/internal/sandbox/kube"
)

// podsAtOnce is how many agents and checks are at work in a cluster where nobody has said:
// this machine's memory says nothing of it.
const podsAtOnce = 10

// openServerSandbox is openSandbox for what is configured.
func openServerSandbox(ctx context.Context, cfg config.Server, self string) (sandbox.Sandbox, error) {
	if cfg.Sandbox.Kind != config.SandboxKubernetes {
		return openSandbox(ctx, cfg.Sandbox.Kind, docker.Options{
			Self: self, Image: cfg.Sandbox.Image, DataDir: cfg.DataDir, HostPaths: cfg.Sandbox.HostPaths,
		}, cfg.Sandbox.LocalIsolation, cfg.Private, false)
	}
	o := kubeOptions(cfg)
	var err error
	if o.Installation, err = installation(cfg.DataDir); err != nil {
		return nil, err
	}
	box, err := kube.New(o)
	if err != nil {
		return nil, err
	}
	if err := box.Check(ctx); err != nil {
		return nil, err
	}
	return box, nil
}

func kubeOptions(cfg config.Server) kube.Options {
	k := cfg.Sandbox.Kubernetes
	return kube.Options{
		Kubeconfig: k.Kubeconfig, Namespace: k.Namespace, BotImage: k.BotImage, Image: cfg.Sandbox.Image,
		RuntimeClass: k.RuntimeClass, UserNamespaces: k.UserNamespaces,
	}
}

// agentsAtOnce is how many agents and checks are at work at once by default.
func agentsAtOnce(box config.Sandbox) int {
	if box.Kind == config.SandboxKubernetes {
		return podsAtOnce
	}
	return machine.Agents(box.Memory, box.CPUs)
}

// lacks says what this machine lacks for a start: of a pod, only the room for what comes of it.
func lacks(cfg config.Server, room func() machine.Room) func() string {
	if cfg.Sandbox.Kind == config.SandboxKubernetes {
		return func() string { return room().LacksDisk() }
	}
	return func() string { return room().Lacks() }
}

// kubernetes says whether pods run, and reach nothing.
func (c *doctorCmd) kubernetes(ctx context.Context, cfg config.Server) finding {
	f := finding{what: "kubernetes"}
	box, err := kube.New(kubeOptions(cfg))
	if err == nil {
		err = box.Check(ctx)
	}
	f.err = err
	f.ok = "pods run in the namespace " + cfg.Sandbox.Kubernetes.Namespace +
		", and reach neither each other nor anything else"
	return f
}
