package progress

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const docPath = ".ralph/7/progress.md"

// tree makes a directory with a sibling an agent must not reach.
func tree(t *testing.T) (root *os.Root, dir, outside string) {
	t.Helper()
	base := t.TempDir()
	dir, outside = filepath.Join(base, "work"), filepath.Join(base, "outside")
	for _, d := range []string{dir, outside} {
		if err := os.Mkdir(d, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(outside, "secret"), sample(false))
	write(t, filepath.Join(outside, "7", "progress.md"), sample(false))
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	})
	return root, dir, outside
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A file keeps its mode, and nothing is left beside it, not even what a crash or a trap put there.
func TestReadWrite(t *testing.T) {
	t.Parallel()
	root, dir, _ := tree(t)
	if _, err := Read(root, docPath); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	file := filepath.Join(dir, docPath)
	write(t, file, "old")
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, ".ralph/7/.progress.md.tmp/x"), "a crash, or a trap")
	for _, crlf := range []bool{false, true} {
		d := parse(t, bom+sample(crlf))
		if err := Write(root, docPath, d.Bytes()); err != nil {
			t.Fatal(err)
		}
		got, err := Read(root, docPath)
		if err != nil {
			t.Fatal(err)
		}
		if string(got.Bytes()) != string(d.Bytes()) {
			t.Errorf("got %q", got.Bytes())
		}
	}
	if fi, err := os.Stat(file); err != nil || fi.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", fi, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(file)); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestWriteLeavesWhatIsThere: a document that stands there already stays the
// file it is, unless that file has another name elsewhere.
func TestWriteLeavesWhatIsThere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old  string
		link bool
		same bool
	}{
		"the same":                    {old: "text\n", same: true},
		"something else":              {old: "TEXT\n"},
		"the same with more":          {old: "text\n\n"},
		"the same with a second name": {old: "text\n", link: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, dir, _ := tree(t)
			file := filepath.Join(dir, docPath)
			write(t, file, c.old)
			if c.link {
				if err := os.Link(file, filepath.Join(dir, "elsewhere")); err != nil {
					t.Fatal(err)
				}
			}
			before, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := Write(root, docPath, parse(t, "text\n").Bytes()); err != nil {
				t.Fatal(err)
			}
			after, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			if os.SameFile(before, after) != c.same {
				t.Errorf("the file is the same: %v, want %v", !c.same, c.same)
			}
			if b, err := os.ReadFile(file); err != nil || string(b) != "text\n" {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}

// planted is what an agent can put in the place of its progress file.
type planted struct {
	name  string
	plant func(t *testing.T, dir, outside string) error
	read  error // of Read
	write error // of Write; nil where it just takes the place
}

// Attack case F1: the file itself is something else.
func TestAttackF1FileReplaced(t *testing.T) {
	t.Parallel()
	inDir := func(f func(file, outside string) error) func(t *testing.T, dir, outside string) error {
		return func(t *testing.T, dir, outside string) error {
			t.Helper()
			file := filepath.Join(dir, docPath)
			if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
				return err
			}
			return f(file, outside)
		}
	}
	testPlanted(t, []planted{
		{
			"link to the outside",
			inDir(func(file, outside string) error { return os.Symlink(filepath.Join(outside, "secret"), file) }), ErrNotRegular,
			ErrNotRegular,
		},
		{
			"relative link", inDir(func(file, _ string) error { return os.Symlink("../../../outside/secret", file) }),
			ErrNotRegular, ErrNotRegular,
		},
		{"link in the tree", inDir(func(file, _ string) error {
			if err := os.WriteFile(file+".real", []byte("x"), 0o600); err != nil {
				return err
			}
			return os.Symlink("progress.md.real", file)
		}), ErrNotRegular, ErrNotRegular},
		{
			"dangling link", inDir(func(file, _ string) error { return os.Symlink("nowhere", file) }), ErrNotRegular,
			ErrNotRegular,
		},
		{
			"hard link", inDir(func(file, outside string) error { return os.Link(filepath.Join(outside, "secret"), file) }),
			ErrNotRegular, nil,
		},
		{
			"directory", inDir(func(file, _ string) error { return os.MkdirAll(filepath.Join(file, "sub"), 0o750) }),
			ErrNotRegular, ErrNotRegular,
		},
		{"pipe", inDir(func(file, _ string) error { return syscall.Mkfifo(file, 0o600) }), ErrNotRegular, ErrNotRegular},
		{"sparse 5 GB", inDir(func(file, _ string) error {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(file, 5<<30)
		}), ErrTooLarge, nil},
		{
			"not UTF-8", inDir(func(file, _ string) error { return os.WriteFile(file, []byte{0xff, 0xfe, 'a'}, 0o600) }),
			ErrEncoding, nil,
		},
		{"NUL", inDir(func(file, _ string) error { return os.WriteFile(file, []byte("a\x00"), 0o600) }), ErrEncoding, nil},
		{"mode 000", inDir(func(file, _ string) error {
			if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
				return err
			}
			return os.Chmod(file, 0)
		}), fs.ErrPermission, nil},
		{"other case", inDir(func(file, _ string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(file), "PROGRESS.md"), []byte("x"), 0o600)
		}), fs.ErrNotExist, nil},
	})
}

// Attack case F2: a directory on the way is something else.
func TestAttackF2ParentReplaced(t *testing.T) {
	t.Parallel()
	testPlanted(t, []planted{
		{"parent is a link to the outside", func(_ *testing.T, dir, outside string) error {
			return os.Symlink(outside, filepath.Join(dir, ".ralph"))
		}, ErrNotRegular, ErrNotRegular},
		{
			"parent is a link to /",
			func(_ *testing.T, dir, _ string) error { return os.Symlink("/", filepath.Join(dir, ".ralph")) }, ErrNotRegular,
			ErrNotRegular,
		},
		{"parent is a link in the tree", func(_ *testing.T, dir, _ string) error {
			if err := os.MkdirAll(filepath.Join(dir, "src", "7"), 0o750); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, "src", "7", "progress.md"), []byte("x"), 0o600); err != nil {
				return err
			}
			return os.Symlink("src", filepath.Join(dir, ".ralph"))
		}, ErrNotRegular, ErrNotRegular},
		{"parent is a file", func(_ *testing.T, dir, _ string) error {
			return os.WriteFile(filepath.Join(dir, ".ralph"), nil, 0o600)
		}, ErrNotRegular, ErrNotRegular},
		{"inner parent is a link", func(_ *testing.T, dir, outside string) error {
			if err := os.Mkdir(filepath.Join(dir, ".ralph"), 0o750); err != nil {
				return err
			}
			return os.Symlink(filepath.Join(outside, "7"), filepath.Join(dir, ".ralph", "7"))
		}, ErrNotRegular, ErrNotRegular},
	})
}

// testPlanted reads and writes where something was planted: nothing outside is
// read or written, and nothing waits.
func testPlanted(t *testing.T, tests []planted) {
	t.Helper()
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			root, dir, outside := tree(t)
			if err := tc.plant(t, dir, outside); err != nil {
				t.Fatal(err)
			}
			if d, err := Read(root, docPath); !errors.Is(err, tc.read) || d != nil {
				t.Errorf("read: got %v, want %v", err, tc.read)
			} else if errors.Is(err, ErrNotRegular) && !strings.Contains(err.Error(), `".ralph`) {
				t.Errorf("the name is not quoted: %v", err)
			}
			mine := parse(t, "# mine\n")
			if err := Write(root, docPath, mine.Bytes()); !errors.Is(err, tc.write) {
				t.Errorf("write: got %v, want %v", err, tc.write)
			}
			if err := Restore(root, docPath, mine); err != nil {
				t.Fatalf("restore: %v", err)
			}
			got, err := Read(root, docPath)
			if err != nil || string(got.Bytes()) != "# mine\n" {
				t.Errorf("after restore: %v", err)
			}
			for _, name := range []string{"secret", "7/progress.md"} {
				if b, err := os.ReadFile(filepath.Join(outside, name)); err != nil || string(b) != sample(false) {
					t.Errorf("%s outside was touched: %v", name, err)
				}
			}
		})
	}
}

// Attack case F2: the file is exchanged between the look at it and the open.
func TestAttackF2Exchanged(t *testing.T) {
	t.Parallel()
	root, dir, outside := tree(t)
	file := filepath.Join(dir, docPath)
	write(t, file, "mine")
	// The race itself, over and over: whatever is read stood inside the tree.
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		var err error
		for i := 0; ; i++ {
			select {
			case <-stop:
				stopped <- err
				return
			default:
			}
			next := file + ".next"
			if i%2 == 0 {
				err = errors.Join(err, os.Symlink(filepath.Join(outside, "secret"), next))
			} else {
				err = errors.Join(err, os.WriteFile(next, []byte("mine"), 0o600))
			}
			err = errors.Join(err, os.Rename(next, file))
		}
	}()
	for range 2000 {
		if d, err := Read(root, docPath); err == nil && string(d.Bytes()) != "mine" {
			t.Errorf("read %q", d.Bytes())
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestAttackF1SocketAndDevice(t *testing.T) {
	t.Parallel()
	root, dir, _ := tree(t)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := Read(root, "sock"); !errors.Is(err, ErrNotRegular) {
		t.Errorf("socket: %v", err)
	}
	dev, err := os.OpenRoot("/dev")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := Read(dev, "zero"); !errors.Is(err, ErrNotRegular) {
		t.Errorf("device: %v", err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	root, _, _ := tree(t)
	for _, name := range []string{"", "/etc/passwd", "../outside/secret", "a/../../outside/secret", "a//b", "./x", "a/"} {
		if _, err := Read(root, name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("read %q: %v", name, err)
		}
		if err := Write(root, name, nil); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("write %q: %v", name, err)
		}
		if err := Restore(root, name, parse(t, "")); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("restore %q: %v", name, err)
		}
	}
}
