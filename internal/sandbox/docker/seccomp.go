package docker

import (
	"context"
	"strings"

	"github.com/moby/moby/client"
)

// seccompName begins what an engine says of its filter of system calls.
const seccompName = "name=seccomp"

// filter gives the options by which a container's system calls are filtered. An engine
// that is older than a way out (sockets of the hypervisor's, which no network
// namespace holds, and io_uring) has a default profile that leaves it open. So its
// default is replaced by the one we know; what an operator has given it stays.
func (s *Sandbox) filter(ctx context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.filters == nil {
		info, err := s.engine.Info(ctx, client.InfoOptions{})
		if err != nil {
			return nil, err
		}
		filters, err := filterOf(info.Info.SecurityOptions)
		if err != nil {
			return nil, err
		}
		s.filters = filters
	}
	return s.filters, nil
}

// filterOf is filter for an engine with these security options, never nil.
func filterOf(options []string) ([]string, error) {
	for _, option := range options {
		rest, ok := strings.CutPrefix(option, seccompName)
		if !ok {
			continue
		}
		// A profile of the operator's is the path of a file.
		if strings.HasPrefix(rest, ",profile=/") {
			break
		}
		text, err := profile()
		if err != nil {
			return nil, err
		}
		if text == "" {
			break
		}
		return []string{"seccomp=" + text}, nil
	}
	return []string{}, nil
}
