package local

import (
	"bytes"
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
	"github.com/org/ralph-action/internal/strs"
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

// parts are what belongs to the programs of a directory of that name and lies beside
// it, where the marker is one of them: of installations by hand, Go, virtual
// environments of Python, Java, Homebrew; of pyenv and its kin, and of asdf and
// mise. All else there may be anything, credentials for one.
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
}

const (
	// maxLinks and maxPrograms bound what following a name may cost: links that
	// lead to each other, and programs that start each other.
	maxLinks    = 40
	maxPrograms = 16
	// maxMasked is how much a directory of programs may hold that is none.
	maxMasked = 64
	// maxScript is how much of a script is searched for what it starts.
	maxScript = 64 << 10
)

// layout is the file system of a command. It begins empty.
type layout struct {
	// items are by where they are to be.
	items map[string]item
	home  []string
	path  string
	// user is what the command runs as, 0 for who we are.
	user int
	// homely are the programs that a script looks for in the home, by their paths
	// there: the command has another home, where links stand for them.
	homely map[string]string
	// read are the programs that were followed: scripts may name each other, and
	// themselves.
	read map[string]bool
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
	l := s.newLayout(spec)
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
		if err := l.showProgram(program, maxPrograms); err != nil {
			return nil, err
		}
	}
	l.show(readOnly, s.self)
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
	for _, dir := range []string{spec.Workspace.Dir, d.Path(homeDir), d.Path(tmpDir), spec.CacheDir} {
		l.show(writable, dir)
	}
	return l, nil
}

func (s *Sandbox) newLayout(spec sandbox.Spec) *layout {
	return &layout{
		items: map[string]item{}, home: homes(), path: cmp.Or(spec.Env["PATH"], os.Getenv("PATH")), user: s.wrapper().user,
		homely: map[string]string{}, read: map[string]bool{},
	}
}

// linkHome makes links in a start's home to the programs that its own command looks for
// in the person's.
func (s *Sandbox) linkHome(d rundir.Dir, spec sandbox.Spec) error {
	l := s.newLayout(spec)
	for _, program := range append(spec.Argv[:1:1], spec.Programs...) {
		if err := l.showProgram(program, maxPrograms); err != nil && s.wrapper().path != "" {
			return err
		}
	}
	for name, target := range l.homely {
		at := filepath.Join(d.Path(homeDir), name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return err
		}
		if err := os.Symlink(target, at); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
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
	// What programs lie in is not hidden as a whole: what is to be hidden there is
	// named, too.
	for _, dir := range append(filepath.SplitList(l.path), systemDirs...) {
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
	look := func() [2][]string {
		var links, hidden []string
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
		return [2][]string{links, hidden}
	}
	if !inAny(dir, systemDirs) {
		found := look()
		return found[0], found[1]
	}
	// Those of the system are large, and change with its packages.
	known, _ := systemPrograms.LoadOrStore(dir, sync.OnceValue(look))
	found := known.(func() [2][]string)() //nolint:forcetypeassert // nothing else is stored
	return found[0], found[1]
}

var systemPrograms sync.Map

// showProgram shows the program that a name stands for, and what that needs in
// turn: the interpreter of a script, and what it starts by an absolute path.
func (l *layout) showProgram(name string, left int) error {
	file := l.lookUp(name)
	if file == "" || left == 0 || l.read[file] {
		return nil // the work tree's own, or the shim says that there is none
	}
	l.read[file] = true
	real, _, err := follow(file)
	if err != nil {
		return nil //nolint:nilerr // the shim says so, where it is looked for
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
	interpreter, others := l.startsOf(file, real)
	if interpreter == "" {
		return nil
	}
	if l.lookUp(interpreter) == "" {
		return &run.UserError{
			Message: fmt.Sprintf("%s is a script for %s, which is not on this machine", real, interpreter),
			Hint:    "install that, or put its directory into the PATH of the bot",
		}
	}
	for _, name := range append([]string{interpreter}, others...) {
		if err := l.showProgram(name, left-1); err != nil {
			return err
		}
	}
	return nil
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
		if isPart(name) {
			return filepath.Clean(name)
		}
		return ""
	}
	if strings.ContainsRune(name, '/') {
		return ""
	}
	for _, dir := range filepath.SplitList(l.path) {
		if file := filepath.Join(dir, name); filepath.IsAbs(file) && isProgram(file) {
			return file
		}
	}
	return ""
}

var (
	// absolute finds what may be the path of a program in a script, and below what may be
	// one under a variable or the output of a command: "$HOME/x", "$(dirname "$0")/../x".
	absolute = strs.Lazy(`/[A-Za-z0-9._@+-]+(?:/[A-Za-z0-9._@+-]+)+`)
	below    = strs.Lazy(`(\$HOME|\$\{HOME\}|~|\$\{[^}\n]*\}|\$[A-Za-z_]+|\$\([^)\n]*\))["']?((?:/[A-Za-z0-9._@+-]+)+)`)
)

// startsOf reads a script that is called by a name: its interpreter, as the name or
// path of a program, and the programs that it names. A program of another kind has
// neither.
func (l *layout) startsOf(name, file string) (interpreter string, others []string) {
	f, err := os.Open(file) // #nosec G304 -- the program that the operator named
	if err != nil {
		return "", nil
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, maxScript)
	n, _ := f.Read(head)
	line, rest, _ := bytes.Cut(head[:n], []byte("\n"))
	line, ok := bytes.CutPrefix(line, []byte("#!"))
	words := strings.Fields(string(line))
	if !ok || len(words) == 0 {
		return "", nil
	}
	interpreter = words[0]
	if filepath.Base(interpreter) == "env" {
		for _, word := range words[1:] {
			if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
				interpreter = word
				break
			}
		}
	}
	for _, path := range absolute().FindAllString(string(rest), maxPrograms) {
		if isProgram(path) {
			others = append(others, path)
		}
	}
	for _, m := range below().FindAllStringSubmatch(string(rest), maxPrograms) {
		others = append(others, l.named(m[1], m[2], name, file)...)
	}
	return interpreter, others
}

// named are the programs that a script may mean by a path below a variable: one below
// the home, or beside the script itself.
func (l *layout) named(variable, path, name, file string) (found []string) {
	if slices.Contains([]string{"$HOME", "${HOME}", "~"}, variable) {
		for _, home := range l.home {
			rel := strings.TrimPrefix(filepath.Clean(path), "/")
			if target := filepath.Join(home, rel); isPart(target) {
				l.homely[rel] = target
				return []string{target}
			}
		}
		return nil
	}
	for _, dir := range []string{filepath.Dir(name), filepath.Dir(file)} {
		if target := filepath.Join(dir, path); isPart(target) {
			found = append(found, target)
		}
	}
	return found
}

// isPart says whether a file is a program, or a part of an installed package, which its
// interpreter runs.
func isPart(path string) bool {
	if isProgram(path) {
		return true
	}
	info, err := os.Stat(path) // #nosec G703 -- named by a program of the operator's
	return err == nil && info.Mode().IsRegular() && strings.Contains(path, "/node_modules/") &&
		filepath.Ext(path) != "" && !strings.HasPrefix(filepath.Base(path), ".")
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
