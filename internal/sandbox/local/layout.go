package local

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/internal/rundir"
)

// systemDirs are what a machine's programs consist of. What is not there, or is a
// link into another of them, is no trouble.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/nix/store", "/gnu/store"}

// secretNames are names in /etc that are nobody's business, whoever may read them.
var secretNames = []string{
	"shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "ssh", "ssl/private", "pki/tls/private",
	"letsencrypt", "wireguard", "krb5.keytab", "credstore", "credstore.encrypted", "docker", "kubernetes", ".git",
}

// maskedProc is what docker masks of /proc, and readOnlyProc what it leaves to read.
// There is no /sys at all.
var (
	maskedProc = []string{
		"acpi", "asound", "interrupts", "kcore", "key-users", "keys", "latency_stats", "sched_debug", "scsi", "timer_list",
		"timer_stats",
	}
	readOnlyProc = []string{"bus", "fs", "irq", "sys", "sysrq-trigger"}
)

// parts are what belongs to the programs of a directory, where the marker is there: beside
// a directory bin in a prefix of installation (npm's and nvm's, Go's, a virtual environment
// of Python's, Java's, Homebrew's), or one shims (pyenv and its kin, asdf and mise), and in
// the directory itself, of pnpm and of the agent's own installer. All else in a prefix may be
// anything, credentials for one.
var parts = []struct {
	dir, marker string
	names       []string
}{
	{"bin", "lib", []string{"lib", "lib64", "libexec", "include"}},
	{"bin", "src/runtime", []string{"src", "pkg", "go.env", "VERSION"}},
	{"bin", "pyvenv.cfg", []string{"pyvenv.cfg"}},
	{"bin", "lib/modules", []string{"conf", "jmods", "release"}},
	{"bin", "Cellar", []string{"Cellar", "opt"}},
	{"shims", "versions", []string{"bin", "libexec", "plugins", "pyenv.d", "rbenv.d", "versions", "version"}},
	{"shims", "installs", []string{"bin", "lib", "plugins", "installs"}},
	{"pnpm", "pnpm/global", []string{"pnpm/global"}},
	{"local", "local/node_modules", []string{"local/node_modules"}},
}

const (
	// maxLinks bounds the links that lead to each other, and maxInterpreters the
	// interpreters that are scripts.
	maxLinks        = 40
	maxInterpreters = 4
	// maxMasked is how much a directory of programs may hold that is none.
	maxMasked = 64
)

// layout is the file system of a command. It begins empty.
type layout struct {
	// items are by where they are to be.
	items map[string]item
	home  []string
	path  string
	// user is what the command runs as, 0 for who we are.
	user int
}

// item is something in the file system: a bind of from, a link to it, or a mask,
// which hides what a bind above would show.
type item struct{ how, from string }

const (
	readOnly = "--ro-bind"
	writable = "--bind-try"
	linked   = "--symlink"
	masked   = "mask"
)

// layout lays out the file system of a start: the system's directories, the
// programs of the PATH, the command's own program, to read; its work tree, cache,
// home and temporary directory, to write. The home of whoever started the bot is not
// there, nor anything else.
func (s *Sandbox) layout(d rundir.Dir, spec sandbox.Spec) (*layout, error) {
	l := &layout{
		items: map[string]item{}, home: homes(), path: cmp.Or(spec.Env["PATH"], os.Getenv("PATH")), user: s.wrapper().user,
	}
	l.items["/var/run"] = item{linked, "/run"}
	for _, dir := range systemDirs {
		l.show(readOnly, dir)
	}
	// The names of the resolvers, and on some systems the certificates, are there
	// by links out of /etc.
	for _, file := range []string{"/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/ca-bundle.pem"} {
		l.show(readOnly, file)
	}
	for _, dir := range filepath.SplitList(l.path) {
		l.showPrograms(dir)
	}
	for _, program := range append(spec.Argv[:1:1], spec.Programs...) {
		if err := l.showProgram(program, maxInterpreters); err != nil {
			return nil, err
		}
	}
	for _, path := range slices.Concat(s.shown, []string{s.self}) {
		l.show(readOnly, path)
	}
	for _, path := range slices.Concat(secrets(), s.hide) {
		l.mask(path)
	}
	for _, m := range spec.Mounts {
		l.show(readOnly, m.Host)
	}
	if spec.GatewayDir != "" {
		l.show(readOnly, spec.GatewayDir)
	}
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		l.items[dir] = item{writable, d.Path(tmpDir)}
	}
	for _, dir := range []string{spec.Workspace, d.Path(homeDir), d.Path(tmpDir), spec.CacheDir} {
		l.show(writable, dir)
	}
	return l, nil
}

// show adds a path as it is on this machine, and the links that lead to it.
func (l *layout) show(how, path string) {
	if !filepath.IsAbs(path) {
		return
	}
	real, links, err := follow(filepath.Clean(path))
	if err != nil || real == "/" {
		return
	}
	for at, to := range links {
		l.items[at] = item{linked, to}
	}
	if at := l.items[real]; at.how != writable {
		l.items[real] = item{how, real}
	}
}

// mask hides a path.
func (l *layout) mask(path string) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || !filepath.IsAbs(real) {
		return
	}
	// What the bot's programs lie in is not hidden as a whole: what is to be hidden there is
	// named, too. An agent's own directory is no reason: its program is shown by itself.
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), systemDirs...) {
		if dir, err := filepath.EvalSymlinks(dir); err == nil && under(dir, real) && isDir(real) {
			return
		}
	}
	l.items[real] = item{how: masked}
}

// showPrograms shows a directory of the PATH, with what its programs consist of.
func (l *layout) showPrograms(dir string) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || !filepath.IsAbs(dir) || !isDir(real) {
		return
	}
	for _, home := range l.home {
		if under(home, real) {
			return // it holds far more than programs
		}
	}
	links, hidden := programsIn(real)
	if !inAny(real, systemDirs) {
		if len(hidden) > maxMasked || l.closed(real) {
			return
		}
		l.show(readOnly, dir)
		for _, path := range hidden {
			l.items[path] = item{how: masked}
		}
		l.showInstallation(filepath.Join(real, "program"))
	}
	for _, link := range links {
		l.show(readOnly, link)
		if target, _, err := follow(link); err == nil {
			l.showInstallation(target)
		}
	}
}

// programsIn gives the links in a directory of programs that lead to programs
// elsewhere than in the system's directories, and what in it is none: directories,
// files that are not for everybody, sockets, and those with a dot, as of
// configuration.
func programsIn(dir string) (links, hidden []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir(), strings.HasPrefix(e.Name(), "."), e.Type()&(fs.ModeSocket|fs.ModeNamedPipe|fs.ModeDevice) != 0:
			hidden = append(hidden, path)
		case e.Type()&fs.ModeSymlink != 0:
			if target, _, err := follow(path); err == nil && !inAny(target, systemDirs) && isProgram(target) {
				links = append(links, path)
			}
		case e.Type().IsRegular():
			if info, err := e.Info(); err == nil && info.Mode()&0o111 == 0 && info.Mode()&0o004 == 0 {
				hidden = append(hidden, path)
			}
		}
	}
	return links, hidden
}

// showProgram shows the program that a name stands for, what is installed with it, and the
// interpreter of a script.
func (l *layout) showProgram(name string, left int) error {
	file := l.lookUp(name)
	real, _, err := follow(file)
	if file == "" || err != nil || left == 0 {
		return nil //nolint:nilerr // the work tree's own, or the shim says that there is none
	}
	l.show(readOnly, file)
	if inAny(real, systemDirs) {
		return nil
	}
	if l.closed(real) {
		return &run.UserError{
			Message: fmt.Sprintf("%s is for its owner only, and as root the bot has another user run it", real),
			Hint:    "run `chmod o+rx " + real + "`, or start the bot as the program's owner",
		}
	}
	l.showInstallation(real)
	interpreter := interpreterOf(real)
	if interpreter != "" && l.lookUp(interpreter) == "" {
		return &run.UserError{
			Message: fmt.Sprintf("%s is a script for %s, which is not on this machine", real, interpreter),
			Hint:    "install that, or put its directory into the PATH of the bot",
		}
	}
	return l.showProgram(interpreter, left-1)
}

// closed says whether the command's user may not use what is root's: a program, or
// a directory of them.
func (l *layout) closed(path string) bool {
	info, err := os.Stat(path) // #nosec G703 -- the operator's PATH
	if l.user == 0 || err != nil {
		return false
	}
	need := fs.FileMode(0o005)
	if info.Mode().IsRegular() && info.Mode()&0o111 == 0 {
		need = 0o004 // its interpreter reads it
	}
	return info.Mode()&need != need
}

// showInstallation shows a program and what belongs to it.
func (l *layout) showInstallation(file string) {
	l.show(readOnly, file)
	if root, _, ok := strings.Cut(file, "/node_modules/"); ok {
		l.show(readOnly, root+"/node_modules")
	}
	if store, _, ok := strings.Cut(file, "/.pnpm/"); ok {
		l.show(readOnly, store+"/.pnpm") // packages link to each other there
	}
	if prefix, _, ok := strings.Cut(file, "/Cellar/"); ok {
		for _, name := range []string{"Cellar", "opt", "lib"} {
			l.show(readOnly, filepath.Join(prefix, name))
		}
	}
	bin := filepath.Dir(file)
	prefix := filepath.Dir(bin)
	if slices.ContainsFunc(l.home, func(home string) bool { return under(home, prefix) }) {
		return
	}
	for _, p := range parts {
		if filepath.Base(bin) != p.dir || !exists(filepath.Join(prefix, p.marker)) {
			continue
		}
		for _, name := range p.names {
			l.show(readOnly, filepath.Join(prefix, name))
		}
	}
}

// lookUp is the absolute path of a program, "" where it is none of the machine's.
func (l *layout) lookUp(name string) string {
	if filepath.IsAbs(name) {
		if isProgram(name) {
			return filepath.Clean(name)
		}
		return ""
	}
	if strings.ContainsRune(name, '/') || name == "" {
		return ""
	}
	for _, dir := range filepath.SplitList(l.path) {
		if file := filepath.Join(dir, name); filepath.IsAbs(file) && isProgram(file) {
			return file
		}
	}
	return ""
}

// interpreterOf is the name or path in the first line of a script, "" for other programs.
func interpreterOf(file string) string {
	f, err := os.Open(file) // #nosec G304 -- the program that the operator named
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, 256) // as the kernel reads
	n, _ := f.Read(head)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	line, ok := strings.CutPrefix(line, "#!")
	words := strings.Fields(line)
	if !ok || len(words) == 0 {
		return ""
	}
	if filepath.Base(words[0]) == "env" {
		for _, word := range words[1:] {
			if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
				return word
			}
		}
	}
	return words[0]
}

// args are bubblewrap's. Above comes before below. The root is still to be closed.
func (l *layout) args() []string {
	order := make([]string, 0, len(l.items))
	for at := range l.items {
		order = append(order, at)
	}
	slices.SortFunc(order, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(a, b))
	})
	args := []string{"--proc", "/proc"}
	var closed []string
	hide := func(path string) {
		switch {
		case isDir(path):
			args, closed = append(args, "--tmpfs", path), append(closed, path)
		case exists(path):
			args = append(args, readOnly, os.DevNull, path)
		}
	}
	for _, name := range maskedProc {
		hide("/proc/" + name)
	}
	for _, name := range readOnlyProc {
		if path := "/proc/" + name; exists(path) {
			args = append(args, readOnly, path, path)
		}
	}
	args = append(args, "--dev", "/dev", "--dir", "/run")
	// bubblewrap would make directories that only root may look into.
	made := map[string]bool{"/": true, "/dev": true, "/proc": true}
	parents := func(path string) {
		var missing []string
		for dir := filepath.Dir(path); !made[dir]; dir = filepath.Dir(dir) {
			made[dir] = true
			missing = append(missing, dir)
		}
		for _, dir := range slices.Backward(missing) {
			args = append(args, "--dir", dir)
		}
	}
	for _, at := range order {
		shown := l.above(at).how == readOnly // as it is on this machine
		switch i := l.items[at]; {
		case i.how == masked && shown:
			hide(at)
		case i.how == masked, (i.how == readOnly || i.how == linked) && shown:
		default:
			if !shown {
				parents(at)
			}
			args = append(args, i.how, i.from, at)
		}
	}
	for _, dir := range append(closed, "/dev") {
		args = append(args, "--remount-ro", dir)
	}
	return args
}

// above is the next thing above a path.
func (l *layout) above(path string) item {
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		if i, ok := l.items[dir]; ok {
			return i
		}
	}
	return item{}
}

// secrets are the files of the system's directories that not everybody may read, but
// whoever runs the command may, and those of secretNames that it may. The other
// directories are root's alone.
var secrets = sync.OnceValue(func() []string {
	// Where the bot is root commands are somebody else.
	root := os.Getuid() == 0
	readable := func(path string, everybody bool) bool {
		return everybody || !root && unix.Access(path, unix.R_OK) == nil
	}
	dirs := []string{"/etc", "/usr/local/etc"}
	if !root { // else what is not for everybody is closed to the command as it is, and the tree may be large
		dirs = append(dirs, "/usr/local")
	}
	var out []string
	for _, dir := range dirs {
		names := secretNames
		if dir == "/usr/local" {
			names = []string{"etc"} // see above
		}
		_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.Type()&fs.ModeSymlink != 0 {
				return nil //nolint:nilerr // what cannot be read is hidden already
			}
			info, err := entry.Info()
			if err != nil {
				return nil //nolint:nilerr // likewise
			}
			bits := fs.FileMode(0o004)
			if entry.IsDir() {
				bits = 0o001
			}
			everybody := info.Mode()&bits != 0
			name, _ := filepath.Rel(dir, path)
			if everybody && !slices.Contains(names, name) {
				return nil
			}
			if readable(path, everybody) && name != "etc" {
				out = append(out, path)
			}
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		})
	}
	return out
})

// homes are the directories of which nothing is shown as a whole: those of the
// user who started the bot, with all above them.
func homes() []string {
	var dirs []string
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, home)
	}
	if u, err := user.Current(); err == nil {
		dirs = append(dirs, u.HomeDir)
	}
	for i, dir := range dirs {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dirs[i] = real
		}
	}
	return dirs
}

// follow gives the path that a path leads to, and the links on the way.
func follow(path string) (real string, links map[string]string, _ error) {
	links = map[string]string{}
	real = "/"
	for rest := strings.Split(path, "/"); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			real = filepath.Dir(real)
			continue
		}
		next := filepath.Join(real, name)
		info, err := os.Lstat(next) // #nosec G703 -- likewise
		if err != nil {
			return "", nil, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			real = next
			continue
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", nil, err
		}
		links[next] = target
		if len(links) > maxLinks {
			return "", nil, errors.New("too many links")
		}
		if filepath.IsAbs(target) {
			real = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return real, links, nil
}

// inAny says whether the path is one of the directories or in one.
func inAny(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return under(path, dir) })
}

func under(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

func isDir(path string) bool {
	info, err := os.Stat(path) // #nosec G703 -- likewise
	return err == nil && info.IsDir()
}

func isProgram(path string) bool {
	info, err := os.Stat(path) // #nosec G703 -- likewise
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func exists(path string) bool {
	_, err := os.Lstat(path) // #nosec G703 -- likewise
	return err == nil
}
