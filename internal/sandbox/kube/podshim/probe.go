package podshim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// ProbePort is what pods listen on to be probed.
const ProbePort = 17646

// probeTime is how long a target may take to answer. What drops packets never does.
const probeTime = 3 * time.Second

// Target is something that no pod may reach: an address, or with a Kind what the pod finds
// out itself.
type Target struct {
	// What is for people.
	What string `json:"what"`
	// Kind is "" for TCP to Address, "dns" for a question to it, or to the servers that
	// the pod is told of, or "api" for the API server that the pod is told of.
	Kind    string `json:"kind,omitempty"`
	Address string `json:"address,omitempty"`
}

// Reached is a target that answered.
type Reached struct {
	Target

	// Said is how.
	Said string `json:"said"`
}

// probe tries each target, given as JSON, and prints those that answered as JSON.
func probe(ctx context.Context, targets []string, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	all := []Target{}
	for _, arg := range targets {
		var t Target
		if err := json.Unmarshal([]byte(arg), &t); err != nil {
			return fmt.Errorf("read a target: %w", err)
		}
		all = append(all, t.resolve()...)
	}
	reached := make([]string, len(all))
	var trying sync.WaitGroup
	for i, t := range all {
		trying.Go(func() { reached[i] = t.try(ctx) })
	}
	trying.Wait()
	found := []Reached{}
	for i, said := range reached {
		if said != "" {
			found = append(found, Reached{all[i], said})
		}
	}
	return json.NewEncoder(w).Encode(found)
}

// resolve fills in what the pod is told.
func (t Target) resolve() []Target {
	switch {
	case t.Address != "":
		return []Target{t}
	case t.Kind == "api":
		host := os.Getenv("KUBERNETES_SERVICE_HOST")
		if host == "" {
			return nil
		}
		return []Target{{What: t.What, Address: net.JoinHostPort(host, os.Getenv("KUBERNETES_SERVICE_PORT"))}}
	case t.Kind == "dns":
		data, _ := os.ReadFile("/etc/resolv.conf") // where there is none, nobody is asked
		var all []Target
		for line := range strings.Lines(string(data)) {
			if f := strings.Fields(line); len(f) == 2 && f[0] == "nameserver" {
				all = append(all, Target{What: t.What, Kind: t.Kind, Address: net.JoinHostPort(f[1], "53")})
			}
		}
		return all
	default:
		return nil
	}
}

func (t Target) try(ctx context.Context) string {
	network := "tcp"
	if t.Kind == "dns" {
		network = "udp"
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, t.Address)
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	if t.Kind != "dns" {
		return "a connection to " + t.Address
	}
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	// Who has the root's addresses: one question that every server has an answer to.
	question := slices.Concat([]byte{0x52, 0x41, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, []byte{0, 0, 2, 0, 1})
	if _, err := conn.Write(question); err != nil {
		return ""
	}
	var answer [512]byte
	if _, err := conn.Read(answer[:]); err != nil {
		return ""
	}
	return "an answer of " + t.Address
}
