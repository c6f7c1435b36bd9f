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
	once sync.Once
}

// Open gives a writer to the file at path, which it makes where there is none; its
// directory must exist. mask takes secrets out of texts; tell is told of the first line
// that could not be written.
func Open(path string, mask func(string) string, tell func(error)) (*Writer, error) {
	w := &Writer{path: path, mask: mask, tell: tell}
	if err := w.write(nil); err != nil {
		return nil, fmt.Errorf("open the analytics file: %w", err)
	}
	return w, nil
}

// Handle writes one event. What an agent says while it works is left out, and that
// a check began.
func (w *Writer) Handle(ev run.Event) {
	if ev.Kind == run.EventAgentActivity || ev.Kind == run.EventGateStarted {
		return
	}
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	err := enc.Encode(w.masked(ev))
	if err == nil {
		err = w.write(line.Bytes())
	}
	if err != nil {
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

// write appends a line.
func (w *Writer) write(line []byte) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if fi, err := os.Stat(w.path); err == nil && fi.Size() > maxFile {
		if err := os.Rename(w.path, w.path+".1"); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(w.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	last := []byte{'\n'}
	if _, err := f.ReadAt(last, fi.Size()-1); err == nil && last[0] != '\n' {
		line = append([]byte{'\n'}, line...) // a crash cut the last line; this must not become part of it
	}
	_, err = f.Write(line) // one call: the kernel appends it whole
	return err
}
