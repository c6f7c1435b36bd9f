package local

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/ralph-action/internal/proc"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/internal/rundir"
	"github.com/org/ralph-action/internal/sandbox/shim"
)

// Isolation says whether commands are kept apart by bubblewrap.
type Isolation string

// The values of Isolation.
const (
	// IsolationAuto uses bubblewrap where it works.
	IsolationAuto Isolation = "auto"
	// IsolationBubblewrap refuses to do without.
	IsolationBubblewrap Isolation = "bwrap"
	// IsolationNone does not use it.
	IsolationNone Isolation = "none"
)

// probePatience bounds the one try of bubblewrap.
const probePatience = 20 * time.Second

// wrapper is bubblewrap as it works on this machine; path is "" where it is not
// used, and why says why not.
type wrapper struct {
	path string
	why  error
}

// probe tries bubblewrap with all that a start asks of it. It may be installed
// and still be refused: by a kernel without user namespaces, a distribution that
// restricts them, or a container around us.
func probe(want Isolation) wrapper {
	if want == IsolationNone {
		return wrapper{}
	}
	path, err := proc.Look("bwrap")
	if err != nil {
		return wrapper{why: err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), probePatience)
	defer cancel()
	args := append(append(namespaces(true), "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"), "--tmpfs", "/tmp",
		"--remount-ro", "/tmp", "--", "/bin/true")
	if _, err := proc.Run(ctx, proc.Cmd{Path: path, Args: args, Env: proc.ScrubbedEnv()}); err != nil {
		return wrapper{why: err}
	}
	return wrapper{path: path}
}

// Confinement implements sandbox.Confiner.
func (s *Sandbox) Confinement() string {
	if s.wrapper().path != "" {
		return "bubblewrap"
	}
	return "no isolation"
}

// Isolated says whether commands are kept apart, and why not where they are not
// though it was not asked for; nil where it was.
func (s *Sandbox) Isolated() (bool, error) {
	w := s.wrapper()
	return w.path != "", w.why
}

// checkIsolation refuses to do without what was asked for.
func (s *Sandbox) checkIsolation() error {
	w := s.wrapper()
	if s.isolation != IsolationBubblewrap || w.path != "" {
		return nil
	}
	message := "bubblewrap cannot isolate commands on this machine: " + w.why.Error()
	hint := "allow unprivileged user namespaces, or use --local-isolation none if you need no isolation"
	if errors.Is(w.why, fs.ErrNotExist) || strings.Contains(w.why.Error(), "not found") {
		hint = "install bubblewrap (on Debian: apt-get install bubblewrap), or use --local-isolation none"
	}
	return &run.UserError{Message: message, Hint: hint, Err: w.why}
}

// namespaces are what a command gets of its own. Without capabilities it cannot
// undo any of it. It dies with the shim, which lives as long as it is meant to.
func namespaces(noNetwork bool) []string {
	args := []string{
		"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--die-with-parent",
		"--cap-drop", "ALL",
	}
	if noNetwork {
		args = append(args, "--unshare-net")
	}
	return args
}

// wrap is the command line that a start is run inside of. The machine is there
// to read; what is a person's own is not there at all; to write there are the
// work tree, the cache, and the start's own home and temporary directory, which is
// /tmp, too.
func (s *Sandbox) wrap(d rundir.Dir, spec sandbox.Spec) []string {
	args := append([]string{s.wrapper().path}, namespaces(spec.GatewayDir != "")...)
	args = append(args, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
	hidden := s.hidden()
	var empty []string
	for _, dir := range hidden {
		switch dir {
		case "/dev", "/proc":
		case "/tmp", "/var/tmp":
			args = append(args, "--bind", d.Path(tmpDir), dir)
		default:
			args, empty = append(args, "--tmpfs", dir), append(empty, dir)
		}
	}
	type bind struct{ how, from, to string }
	binds := []bind{{"--ro-bind", s.self, s.self}}
	for _, path := range s.shown(spec, hidden) {
		binds = append(binds, bind{"--ro-bind", path, path})
	}
	for _, m := range spec.Mounts {
		binds = append(binds, bind{"--ro-bind", m.Host, m.Target})
	}
	if spec.GatewayDir != "" {
		binds = append(binds, bind{"--ro-bind", spec.GatewayDir, spec.GatewayDir})
	}
	// Names are looked up where links have been followed already, which is done
	// by the host.
	for _, dir := range []string{spec.Workspace.Dir, d.Path(homeDir), d.Path(tmpDir), spec.CacheDir, spec.Env["GOCACHE"]} {
		if dir != "" && filepath.IsAbs(dir) {
			binds = append(binds, bind{"--bind-try", dir, dir})
		}
	}
	// Above before below.
	slices.SortStableFunc(binds, func(a, b bind) int {
		return cmp.Compare(strings.Count(a.to, "/"), strings.Count(b.to, "/"))
	})
	for _, b := range binds {
		args = append(args, b.how, b.from, b.to)
	}
	for _, dir := range empty {
		args = append(args, "--remount-ro", dir)
	}
	return append(args, "--", s.self, "shim", shim.Inside)
}

// hidden are the directories of which a command does not see what the host has
// there: homes, where credentials are; /run, where daemons listen; those that it
// gets anew; and what the caller named. Above comes before below, and nothing is
// hidden twice.
func (s *Sandbox) hidden() []string {
	dirs := append([]string{"/dev", "/proc", "/tmp", "/var/tmp", "/home", "/root", "/run", "/mnt", "/media"}, s.hide...)
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, home)
	}
	if u, err := user.Current(); err == nil {
		dirs = append(dirs, u.HomeDir)
	}
	var real []string
	for _, dir := range dirs {
		dir, err := filepath.EvalSymlinks(dir)
		if err == nil && filepath.IsAbs(dir) && dir != "/" && isDir(dir) {
			real = append(real, dir)
		}
	}
	slices.Sort(real)
	var out []string
	for _, dir := range real {
		if !below(dir, out) {
			out = append(out, dir)
		}
	}
	return out
}

// shown are the parts of what is hidden that programs need: the directories of
// PATH with the installations that they belong to, the program itself, and what
// names the resolvers.
func (s *Sandbox) shown(spec sandbox.Spec, hidden []string) []string {
	path := cmp.Or(spec.Env["PATH"], os.Getenv("PATH"))
	var out []string
	for _, dir := range filepath.SplitList(path) {
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil || !filepath.IsAbs(dir) || !below(dir, hidden) || slices.Contains(hidden, dir) {
			continue
		}
		out = append(out, installation(dir, hidden))
	}
	if program := s.program(spec.Argv[0], path); program != "" {
		out = append(out, program)
		if real, err := filepath.EvalSymlinks(program); err == nil {
			out = append(out, real)
		}
	}
	if real, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil {
		out = append(out, real)
	}
	return slices.DeleteFunc(out, func(path string) bool { return !below(path, hidden) || slices.Contains(hidden, path) })
}

// installation is what belongs to a directory of programs: all that is beside it
// (libraries, the packages of a language), where that is an installation of its
// own. Those that people share between programs hold credentials as well.
func installation(bin string, hidden []string) string {
	prefix := filepath.Dir(bin)
	shared := []string{".local", ".cargo", ".config", ".docker", ".krew"}
	if filepath.Base(bin) != "bin" || slices.Contains(hidden, prefix) || slices.Contains(shared, filepath.Base(prefix)) ||
		!below(filepath.Dir(prefix), hidden) {
		return bin
	}
	return prefix
}

// program is the absolute path of a command, "" where it is none of the host's.
func (s *Sandbox) program(name, path string) string {
	if filepath.IsAbs(name) {
		return name
	}
	if strings.ContainsRune(name, '/') {
		return ""
	}
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		info, err := os.Stat(file) // #nosec G703 -- PATH is the host's
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && filepath.IsAbs(file) {
			return file
		}
	}
	return ""
}

// below says whether the path is one of the directories or in one.
func below(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return under(path, dir) })
}

func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
