package host

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/gate"
	"github.com/org/ralph-action/internal/gitrepo"
	"github.com/org/ralph-action/internal/host/devcontainer"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
)

const (
	// buildTimeout bounds the build of an image.
	buildTimeout = 20 * time.Minute
	// maxContext bounds the files that a build sees, and maxRecipe its
	// Dockerfile and .dockerignore.
	maxContext = 64 << 20
	maxRecipe  = 256 << 10
	// builtImage begins the name of an image that is built; the rest stands for
	// what it is made of.
	builtImage = "ralph-devcontainer:"
	// aside is the name of a Dockerfile that is not one of the files of its build.
	aside = ".ralph.Dockerfile"
)

// environment is what the default branch's devcontainer.json makes of the
// sandboxes of a run.
type environment struct {
	image string
	// build is nil where the image is somebody else's.
	build    *loop.Image
	findings []gate.Finding
}

// environment reads the default branch's devcontainer.json, as far as this
// server takes images from there. It is empty where there is none.
func (h *Host) environment(ctx context.Context, at Location) (environment, error) {
	mode := h.cfg.Devcontainer
	if mode == "" || mode == config.DevcontainerOff {
		return environment{}, nil
	}
	name, file, err := readDevcontainer(ctx, at.Repo, at.Default)
	switch {
	case err != nil:
		return environment{}, err
	case name == "" && h.cfg.Image == "":
		return environment{}, &run.UserError{
			Message: "no sandbox image: the default branch has no " + strings.Join(devcontainer.Paths(), " and no "),
			Hint:    "add one, or name another image",
		}
	case name == "":
		return environment{}, nil
	}
	var env environment
	note := func(format string, args ...any) {
		f := gate.Finding{Rule: "devcontainer", Text: fmt.Sprintf(format, args...)}
		env.findings = append(env.findings, f)
		if h.cfg.Emit != nil {
			h.cfg.Emit(run.Event{Kind: run.EventPersonNotified, Text: f.Text})
		}
	}
	switch {
	case file.Build == nil && !config.IsImage(file.Image):
		return environment{}, unusable(name, fmt.Errorf("%.80q does not look like the reference of an image", file.Image))
	case file.Build == nil:
		env.image = file.Image
	case mode == config.DevcontainerBuild:
		tree, err := at.Repo.TreeOf(ctx, at.Default)
		if err != nil {
			return environment{}, err
		}
		b, err := newRecipe(ctx, at.Repo, tree, *file.Build)
		if err != nil {
			return environment{}, unusable(name, err)
		}
		if env.image, err = b.imageName(ctx); err != nil {
			return environment{}, unusable(name, err)
		}
		env.build = &loop.Image{Name: env.image, Tree: string(tree)}
	case h.cfg.Image == "":
		return environment{}, &run.UserError{
			Message: name + " needs an image build, which is not allowed here", Hint: "allow it, or name another image",
		}
	default:
		note("%s needs an image build, which is not allowed here: %s was used", name, h.cfg.Image)
		return env, nil
	}
	if len(file.Unused) > 0 {
		more := ""
		if n := len(file.Unused) - maxTold; n > 0 {
			file.Unused, more = file.Unused[:maxTold], fmt.Sprintf(" and %d more", n)
		}
		note("of %s only the image is used, not: %.300s%s", name, strings.Join(file.Unused, ", "), more)
	}
	return env, nil
}

// readDevcontainer finds and reads the file; name is "" where there is none.
func readDevcontainer(
	ctx context.Context, repo *gitrepo.Repo, treeish gitrepo.OID,
) (name string, _ devcontainer.File, _ error) {
	for _, name := range devcontainer.Paths() {
		src, err := repo.ReadFile(ctx, treeish, name, devcontainer.MaxBytes)
		switch {
		case errors.Is(err, gitrepo.ErrNotFound):
			continue
		case errors.Is(err, gitrepo.ErrTooLarge):
			return "", devcontainer.File{}, unusable(name, fmt.Errorf("it holds more than %d KiB", devcontainer.MaxBytes>>10))
		case err != nil:
			return "", devcontainer.File{}, fmt.Errorf("read %s: %w", name, err)
		}
		file, err := devcontainer.Parse(name, src)
		if err != nil {
			return "", devcontainer.File{}, unusable(name, err)
		}
		return name, file, nil
	}
	return "", devcontainer.File{}, nil
}

// unusable says what is wrong with a file of the default branch; other errors
// than those of its content pass.
func unusable(name string, err error) error {
	return &run.UserError{
		Message: fmt.Sprintf("%s is not valid: %s", name, err), Hint: "fix it on the default branch", Err: err,
	}
}

// recipe is a build and the files that it sees, all of one tree.
type recipe struct {
	devcontainer.Build
	repo *gitrepo.Repo
	tree gitrepo.OID
	pick func(path string) bool
	// dockerfile is the path of the instructions among the files. beside holds
	// them where they are not one of the files.
	dockerfile string
	beside     []byte
}

// newRecipe lays out a build as the docker command does: what .dockerignore names
// is left out, and the Dockerfile need not be one of the files.
func newRecipe(ctx context.Context, repo *gitrepo.Repo, tree gitrepo.OID, b devcontainer.Build) (*recipe, error) {
	prefix := b.Context + "/"
	if b.Context == "." {
		prefix = ""
	}
	ignored, err := repo.ReadFile(ctx, tree, prefix+devcontainer.IgnoreFile, maxRecipe)
	if err != nil && !errors.Is(err, gitrepo.ErrNotFound) {
		return nil, err
	}
	r := &recipe{Build: b, repo: repo, tree: tree}
	if r.pick, err = devcontainer.Pick(ignored); err != nil {
		return nil, err
	}
	src, err := repo.ReadFile(ctx, tree, b.Dockerfile, maxRecipe)
	if err != nil {
		return nil, err
	}
	within, below := strings.CutPrefix(b.Dockerfile, prefix)
	if r.dockerfile = within; !below || !r.pick(within) {
		r.dockerfile, r.beside = aside, src
	}
	return r, nil
}

// write writes the files as a tar file: the same bytes for the same content.
func (r *recipe) write(ctx context.Context, w io.Writer) error {
	if r.beside != nil {
		first := tar.NewWriter(w)
		err := first.WriteHeader(&tar.Header{
			Name: r.dockerfile, Mode: 0o644, Size: int64(len(r.beside)), Format: tar.FormatPAX,
		})
		if err == nil {
			_, err = first.Write(r.beside)
		}
		if err = errors.Join(err, first.Flush()); err != nil { // it goes on, so it is not closed
			return fmt.Errorf("write a tar file: %w", err)
		}
	}
	err := r.repo.Tar(ctx, w, r.tree, r.Context, r.pick, maxContext)
	if errors.Is(err, gitrepo.ErrTooLarge) {
		return fmt.Errorf("its context holds more than %d MiB; name in %s what the build does not need", maxContext>>20,
			devcontainer.IgnoreFile)
	}
	return err
}

// imageName stands for all that the image is made of, but for the images that
// the instructions name.
func (r *recipe) imageName(ctx context.Context) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q", r.dockerfile, r.Target)
	for _, key := range slices.Sorted(maps.Keys(r.Args)) {
		fmt.Fprintf(sum, " %q=%q", key, r.Args[key])
	}
	if err := r.write(ctx, sum); err != nil {
		return "", err
	}
	return builtImage + hex.EncodeToString(sum.Sum(nil)), nil
}

// open gives the files to read.
func (r *recipe) open(ctx context.Context) (io.ReadCloser, error) {
	pr, pw := io.Pipe()
	go func() { _ = pw.CloseWithError(r.write(ctx, pw)) }() // it never fails
	return pr, nil
}

// BuildImage implements loop.Runner.
func (h *Host) BuildImage(ctx context.Context, _ loop.State, i loop.Image) (loop.ImageStatus, error) {
	box := h.cfg.Sandbox.About()
	if box.Images == nil {
		return loop.ImageStatus{Failed: "the sandbox " + box.Name + " builds no images"}, nil
	}
	repo, err := h.Repo(ctx)
	if err != nil {
		return loop.ImageStatus{}, err
	}
	_, file, err := readDevcontainer(ctx, repo, gitrepo.OID(i.Tree))
	if err != nil {
		return loop.ImageStatus{}, err
	}
	if file.Build == nil {
		return loop.ImageStatus{}, fmt.Errorf("tree %s says nothing of a build", i.Tree)
	}
	r, err := newRecipe(ctx, repo, gitrepo.OID(i.Tree), *file.Build)
	if err != nil {
		return loop.ImageStatus{}, err
	}
	status, err := box.Images.Build(ctx, sandbox.Build{
		Name: i.Name, Context: r.open, Dockerfile: r.dockerfile, Args: r.Args, Target: r.Target,
		Timeout: buildTimeout, MemoryBytes: h.cfg.Resources.MemoryBytes, CPUs: h.cfg.Resources.CPUs,
	})
	if errors.Is(err, sandbox.ErrNoRegistry) {
		h.noRegistry = &loop.Delay{
			Why: "the registry does not answer that has the base image of the development container", For: imagePause, Err: err,
		}
		return loop.ImageStatus{}, h.noRegistry
	}
	if status.Running && h.noRegistry != nil {
		return loop.ImageStatus{}, h.noRegistry // until this attempt has ended, too
	}
	h.noRegistry = nil
	if err != nil || status.Failed == "" {
		return loop.ImageStatus{Running: status.Running}, err
	}
	failed := status.Failed
	if said := strings.TrimSpace(status.Output); said != "" {
		failed += "; at its end it said: " + said[max(0, len(said)-maxSaid):]
	}
	return loop.ImageStatus{Failed: h.cfg.Mask.Mask(failed)}, nil
}

// maxSaid bounds what is told of the words of a build.
const maxSaid = 400
