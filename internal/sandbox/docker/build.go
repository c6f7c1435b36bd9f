package docker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/client"

	"github.com/org/ralph-action/internal/sandbox"
)

// maxBuildOutput is what is kept of the end of a build's words.
const maxBuildOutput = 4 << 10

var _ sandbox.Images = (*Sandbox)(nil)

// Build implements sandbox.Images with the engine's own builder. The commands of
// the instructions run in the engine's way, not in that of sandboxes: as root,
// with its network. What they make is only ever run in a sandbox.
func (s *Sandbox) Build(ctx context.Context, b sandbox.Build) (sandbox.BuildStatus, error) {
	if err := s.noteUse(b.Name, time.Now()); err != nil {
		return sandbox.BuildStatus{}, err
	}
	s.mu.Lock()
	under := s.builds[b.Name]
	s.mu.Unlock()
	if under == nil {
		_, err := s.engine.ImageInspect(ctx, b.Name)
		if err == nil {
			return sandbox.BuildStatus{}, nil
		}
		if !errdefs.IsNotFound(err) {
			return sandbox.BuildStatus{}, fmt.Errorf("look for image %s: %w", b.Name, unavailable(err))
		}
		s.startBuild(ctx, b)
		return sandbox.BuildStatus{Running: true}, nil
	}
	select {
	case end := <-under:
		// Told once: whoever asks again tries again.
		s.mu.Lock()
		delete(s.builds, b.Name)
		s.mu.Unlock()
		return end.status, end.err
	default:
		return sandbox.BuildStatus{Running: true}, nil
	}
}

// startBuild begins a build, unless somebody has meanwhile. It lasts beyond the
// request for it.
func (s *Sandbox) startBuild(ctx context.Context, b sandbox.Build) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.builds[b.Name] != nil {
		return
	}
	done := make(chan built, 1)
	s.builds[b.Name] = done
	ctx = context.WithoutCancel(ctx)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, b.Timeout)
		defer cancel()
		var said ending
		err := s.build(ctx, b, &said)
		end := built{status: sandbox.BuildStatus{Output: said.String()}}
		switch {
		case err == nil:
		case errors.Is(err, sandbox.ErrNoRegistry), errors.Is(err, sandbox.ErrUnavailable):
			end.err = err
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			end.status.Failed = fmt.Sprintf("it took longer than %s", b.Timeout)
		default:
			end.status.Failed = err.Error()
		}
		done <- end
	}()
}

func (s *Sandbox) build(ctx context.Context, b sandbox.Build, said io.Writer) (err error) {
	files, err := b.Context(ctx)
	if err != nil {
		return fmt.Errorf("lay out the files for it: %w", err)
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	args := map[string]*string{}
	for name, value := range b.Args {
		args[name] = &value
	}
	memory := cmp.Or(max(b.MemoryBytes, 0), DefaultMemoryBytes)
	options := client.ImageBuildOptions{
		Tags: []string{b.Name}, Dockerfile: b.Dockerfile, BuildArgs: args, Target: b.Target,
		Labels: map[string]string{labelInstallation: s.opts.Installation},
		Remove: true, ForceRemove: true,
		Memory: memory, MemorySwap: memory,
		// The other builder takes its files from a session with its client only.
		Version: build.BuilderV1,
	}
	if b.CPUs > 0 {
		options.CPUPeriod = 100_000
		options.CPUQuota = int64(b.CPUs * float64(options.CPUPeriod))
	}
	answer, err := s.engine.ImageBuild(ctx, files, options)
	if err != nil {
		return unavailable(err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	dec := json.NewDecoder(answer.Body)
	for {
		var line struct {
			Stream string `json:"stream"`
			Error  string `json:"error"`
		}
		err := dec.Decode(&line)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read what the build says: %w", err)
		}
		_, _ = io.WriteString(said, line.Stream) // it never fails
		if line.Error != "" {
			err := errors.New(line.Error)
			if isRegistryAway(line.Error) {
				err = fmt.Errorf("%w: %w", sandbox.ErrNoRegistry, err)
			}
			return err
		}
	}
	if _, err := s.engine.ImageInspect(ctx, b.Name); err != nil {
		return fmt.Errorf("it ended without an image: %w", err)
	}
	return nil
}

// built is how a build of this process has ended.
type built struct {
	status sandbox.BuildStatus
	err    error
}

// isRegistryAway says whether the builder could not reach the registry of an image, by its
// words; it has no others. What a command of the build or an ADD could not reach is told
// in other words, which begin with those of the builder.
func isRegistryAway(said string) bool {
	begins := func(with string) bool { return strings.HasPrefix(said, with) }
	holds := func(words string) bool { return strings.Contains(said, words) }
	return slices.ContainsFunc([]string{
		`Get "http`, `Head "http`, "error pulling image configuration: ", "received unexpected HTTP status: 5",
		"toomanyrequests: ",
		"net/http: ", "dial tcp", "unexpected EOF",
	}, begins) && !slices.ContainsFunc([]string{
		"unauthorized", "denied", "manifest unknown", "not found", "server gave HTTP response to HTTPS client",
	}, holds)
}

// ending keeps the last maxBuildOutput bytes written to it.
type ending struct{ b []byte }

func (e *ending) Write(p []byte) (int, error) {
	e.b = append(e.b, p...)
	if over := len(e.b) - maxBuildOutput; over > 0 {
		e.b = append(e.b[:0], e.b[over:]...)
	}
	return len(p), nil
}

func (e *ending) String() string { return strings.ToValidUTF8(string(e.b), "\ufffd") }
