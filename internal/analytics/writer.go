package analytics

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/org/ralph-action/internal/run"
)

// maxFile is the size at which a file makes room: it is renamed to have ".1"
// at its end, in place of the one that has it.
const maxFile = 64 << 20

// Writer appends events to a file. It is safe for concurrent use; of several
// processes that write to one file each line stays whole.
type Writer struct {
	path string
	mask func(string) string
	tell func(error)

	mu   sync.Mutex
	file *os.File
	size int64
	once sync.Once
}

// Open opens the file at path, and makes it where there is none; its directory
// must exist. mask takes secrets out of texts; tell is told of the first line
// that could not be written.
func Open(path string, mask func(string) string, tell func(error)) (*Writer, error) {
	w := &Writer{path: path, mask: mask, tell: tell}
	if err := w.open(); err != nil {
		return nil, fmt.Errorf("open the analytics file: %w", err)
	}
	return w, nil
}

func (w *Writer) open() error {
	file, err := os.OpenFile(w.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	fi, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	w.file, w.size = file, fi.Size()
	if w.size == 0 {
		return nil
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, w.size-1); err != nil {
		return errors.Join(err, file.Close())
	}
	if last[0] == '\n' {
		return nil
	}
	// A crash cut the last line; the next must not become part of it.
	if _, err := file.WriteString("\n"); err != nil {
		return errors.Join(err, file.Close())
	}
	w.size++
	return nil
}

// Handle writes one event. What an agent says while it works is left out, and that
// a check began.
func (w *Writer) Handle(ev run.Event) {
	if ev.Kind == run.EventAgentActivity || ev.Kind == run.EventGateStarted {
		return
	}
	if err := w.write(newRecord(ev, w.mask)); err != nil {
		w.once.Do(func() { w.tell(fmt.Errorf("write analytics: %w", err)) })
	}
}

func (w *Writer) write(r Record) error {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return os.ErrClosed
	}
	if w.size > maxFile {
		if err := w.rotate(); err != nil {
			return err
		}
	}
	n, err := w.file.Write(line.Bytes()) // one call: the kernel appends it whole
	w.size += int64(n)
	return err
}

func (w *Writer) rotate() error {
	err := w.file.Close()
	w.file = nil
	if err != nil {
		return err
	}
	if err := os.Rename(w.path, w.path+".1"); err != nil {
		return err
	}
	return w.open()
}

// Close closes the file. Events after that are lost, and told of.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return err
}

// Files are those that hold the lines of the file at path, older first.
func Files(path string) ([]string, error) {
	var files []string
	for _, name := range []string{path + ".1", path} {
		fi, err := os.Stat(name)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("look for analytics: %w", err)
		case fi.Mode().IsRegular():
			files = append(files, filepath.Clean(name))
		}
	}
	return files, nil
}

// ReadFiles sums up the lines of files, see Summary.
func ReadFiles(files []string, keep func(Record) bool) (*Summary, error) {
	s := NewSummary(keep)
	for _, name := range files {
		if err := readFile(s, name); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func readFile(s *Summary, name string) (err error) {
	f, err := os.Open(name) //nolint:gosec // the person names the file
	if err != nil {
		return fmt.Errorf("read analytics: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return s.Read(io.Reader(f))
}
