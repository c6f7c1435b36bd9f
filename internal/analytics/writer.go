package analytics

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

const (
	// maxFile is the size at which a file makes room: it is renamed to have ".1"
	// at its end, in place of the one that has it.
	maxFile = 64 << 20
	// maxTitle and maxText bound a line's texts, in bytes.
	maxTitle = 200
	maxText  = 400
)

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
	if err := w.write(w.masked(ev)); err != nil {
		w.once.Do(func() { w.tell(fmt.Errorf("write analytics: %w", err)) })
	}
}

// masked is the event with short texts and without secrets.
func (w *Writer) masked(ev run.Event) run.Event {
	ev.Time = ev.Time.UTC()
	ev.CostUSD, ev.Usage.CostUSD = run.Dollars(ev.CostUSD), run.Dollars(ev.Usage.CostUSD)
	for _, text := range []*string{&ev.Subject, &ev.TaskTitle, &ev.Gate} {
		*text = strs.Cut(w.mask(*text), maxTitle)
	}
	ev.Text = strs.Cut(w.mask(ev.Text), maxText)
	ev.Models, ev.Hosts = slices.Clone(ev.Models), slices.Clone(ev.Hosts)
	for i, m := range ev.Models {
		ev.Models[i].Model = strs.Cut(w.mask(m.Model), maxTitle)
		ev.Models[i].Usage.CostUSD = run.Dollars(m.Usage.CostUSD)
	}
	for i, h := range ev.Hosts {
		ev.Hosts[i].Host = strs.Cut(w.mask(h.Host), maxTitle)
	}
	return ev
}

func (w *Writer) write(ev run.Event) error {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(ev); err != nil {
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
