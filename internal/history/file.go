package history

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"
)

// maxFile bounds what is read of a file of lessons, in bytes. Beyond fullFile,
// which is more than MaxLessons take, what is old or written over is left out.
const (
	fullFile = 8 << 20
	maxFile  = 2 * fullFile
)

// File is a memory in a file of JSON lines, one lesson each, below a directory
// that belongs to a person. It is safe for concurrent use within one process;
// of two processes that write at once, both lessons are kept.
type File struct {
	root *os.Root
	name string
	mu   sync.Mutex
}

// NewFile is the memory at name below root. The file is made with the first
// lesson, and beside it a .gitignore where there is none.
func NewFile(root *os.Root, name string) *File { return &File{root: root, name: name} }

// Remember implements Memory.
func (f *File) Remember(_ context.Context, l Lesson) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	line, err := json.Marshal(l.Bounded())
	if err != nil {
		return fmt.Errorf("remember a lesson: %w", err)
	}
	if fi, err := f.root.Lstat(f.name); err == nil && fi.Size() > fullFile {
		if err := f.rewrite(); err != nil {
			return fmt.Errorf("remember a lesson: %w", err)
		}
	}
	if err := f.append(append(line, '\n')); err != nil {
		return fmt.Errorf("remember a lesson: %w", err)
	}
	return nil
}

// Similar implements Memory.
func (f *File) Similar(_ context.Context, q Query, n int) ([]Lesson, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	lessons, err := f.read()
	if err != nil {
		return nil, fmt.Errorf("look for lessons: %w", err)
	}
	return Pick(q, lessons, n), nil
}

// All gives the lessons there are, the oldest first.
func (f *File) All() ([]Lesson, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	lessons, err := f.read()
	if err != nil {
		return nil, fmt.Errorf("read lessons: %w", err)
	}
	return lessons, nil
}

// open refuses what is not a plain file: the directory may hold what an agent
// or a stranger's repository put there.
func (f *File) open(flag int) (*os.File, error) {
	if fi, err := f.root.Lstat(f.name); err == nil && !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is not a plain file", f.name)
	}
	file, err := f.root.OpenFile(f.name, flag|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if fi, err := file.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%q is not a plain file", f.name), err, file.Close())
	}
	return file, nil
}

// read gives the lessons, of each key the last one. Lines that are none are
// passed over: one may have been cut short by a crash, others a person wrote.
func (f *File) read() (lessons []Lesson, err error) {
	file, err := f.open(os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	src, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil, err
	}
	at := make(map[string]int)
	scanner := bufio.NewScanner(bytes.NewReader(src))
	scanner.Buffer(nil, maxFile+1)
	for scanner.Scan() {
		var l Lesson
		if json.Unmarshal(scanner.Bytes(), &l) != nil || l.Key == "" {
			continue
		}
		l = l.Bounded()
		if i, ok := at[l.Key]; ok {
			lessons[i] = l
			continue
		}
		at[l.Key] = len(lessons)
		lessons = append(lessons, l)
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	return lessons[max(0, len(lessons)-MaxLessons):], nil
}

// append adds one line, on a line of its own also where a crash cut the one
// before it.
func (f *File) append(line []byte) (err error) {
	if dir := path.Dir(f.name); dir != "." {
		if err := f.root.MkdirAll(dir, 0o750); err != nil {
			return err
		}
		if err := f.ignore(dir); err != nil {
			return err
		}
	}
	file, err := f.open(os.O_RDWR | os.O_CREATE | os.O_APPEND)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	fi, err := file.Stat()
	if err != nil {
		return err
	}
	if size := fi.Size(); size > 0 {
		last := make([]byte, 1)
		if _, err := file.ReadAt(last, size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	_, err = file.Write(line)
	return err
}

// ignore keeps git from showing the file, unless somebody has said what git is
// to ignore there.
func (f *File) ignore(dir string) error {
	name := path.Join(dir, ".gitignore")
	if _, err := f.root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	rules := "# What runs in this checkout have learned is nobody else's.\n/.gitignore\n/" + path.Base(f.name) + "*\n"
	return f.root.WriteFile(name, []byte(rules), 0o600)
}

func (f *File) rewrite() error {
	lessons, err := f.read()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, l := range lessons {
		line, err := json.Marshal(l)
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	tmp := f.name + ".tmp"
	if err := f.root.RemoveAll(tmp); err != nil {
		return err
	}
	if err := f.root.WriteFile(tmp, b.Bytes(), 0o600); err != nil {
		return err
	}
	return f.root.Rename(tmp, f.name)
}
