package spend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/org/ralph-action/internal/run"
)

// File is a Ledger in a file of its own, for one process at a time: a line of
// JSON for each thing that happened, only ever added to.
type File struct {
	mu       sync.Mutex
	f        *os.File
	starts   map[string]*fileStart
	requests []fileRequest
	spent    map[string]USD
}

type fileStart struct {
	Start
	ended   bool
	refused []Refusal
	hosts   []run.HostUse
}

type fileRequest struct {
	start, model string
	charge       Charge
	settled      bool
}

// fileLine is one line; exactly one of its fields is set.
type fileLine struct {
	Begin   *Start       `json:",omitempty"`
	End     string       `json:",omitempty"`
	Reserve *fileReserve `json:",omitempty"`
	Settle  *fileSettle  `json:",omitempty"`
	Refuse  *fileRefuse  `json:",omitempty"`
	Reach   *fileReach   `json:",omitempty"`
}

type fileReserve struct {
	Start, Model string
	Worst        USD
}

type fileSettle struct {
	ID     int64
	Charge Charge
}

type fileRefuse struct {
	Start   string
	Refusal Refusal
}

type fileReach struct {
	Start string
	Use   run.HostUse
}

// OpenFile opens the ledger at path and makes it where there is none. A last
// line that a crash cut off is removed: what it was about never happened.
func OpenFile(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // G304: a file of our own data directory
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	l := &File{f: f, starts: map[string]*fileStart{}, spent: map[string]USD{}}
	if err := l.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the ledger: %w", err), f.Close())
	}
	return l, nil
}

func (l *File) load() error {
	b, err := io.ReadAll(l.f)
	if err != nil {
		return err
	}
	whole := bytes.LastIndexByte(b, '\n') + 1
	n := 0
	for text := range bytes.Lines(b[:whole]) {
		n++
		var line fileLine
		if err := json.Unmarshal(text, &line); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := l.apply(line); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := l.f.Truncate(int64(whole)); err != nil {
		return err
	}
	_, err = l.f.Seek(int64(whole), io.SeekStart)
	return err
}

// write notes what happens, then makes it so.
func (l *File) write(line fileLine) error {
	b, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("write to the ledger: %w", err)
	}
	if _, err := l.f.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("write to the ledger: %w", err)
	}
	return l.apply(line)
}

func (l *File) apply(line fileLine) error {
	switch {
	case line.Begin != nil:
		l.starts[line.Begin.Name] = &fileStart{Start: *line.Begin}
	case line.End != "":
		if s := l.starts[line.End]; s != nil {
			s.ended = true
		}
	case line.Reserve != nil:
		r := line.Reserve
		if l.starts[r.Start] == nil {
			return fmt.Errorf("%w: %s", ErrUnknownStart, r.Start)
		}
		l.requests = append(l.requests, fileRequest{start: r.Start, model: r.Model, charge: Charge{Cost: r.Worst}})
		l.count(r.Start, r.Worst)
	case line.Settle != nil:
		id := line.Settle.ID
		if id < 1 || id > int64(len(l.requests)) {
			return fmt.Errorf("no request %d", id)
		}
		r := &l.requests[id-1]
		l.count(r.start, line.Settle.Charge.Cost-r.charge.Cost)
		r.charge, r.settled = line.Settle.Charge, true
	case line.Refuse != nil:
		s := l.starts[line.Refuse.Start]
		if s == nil {
			return fmt.Errorf("%w: %s", ErrUnknownStart, line.Refuse.Start)
		}
		if !slices.Contains(s.refused, line.Refuse.Refusal) {
			s.refused = append(s.refused, line.Refuse.Refusal)
		}
	case line.Reach != nil:
		s, u := l.starts[line.Reach.Start], line.Reach.Use
		if s == nil {
			return fmt.Errorf("%w: %s", ErrUnknownStart, line.Reach.Start)
		}
		i := slices.IndexFunc(s.hosts, func(h run.HostUse) bool { return h.Host == u.Host && h.Blocked == u.Blocked })
		if i < 0 {
			s.hosts = append(s.hosts, u)
		} else {
			s.hosts[i] = u
		}
	}
	return nil
}

func (l *File) count(start string, cost USD) {
	for _, scope := range l.starts[start].Scopes {
		l.spent[scope.Key] += cost
	}
}

// Close closes the file.
func (l *File) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.f.Close(); err != nil {
		return fmt.Errorf("close the ledger: %w", err)
	}
	return nil
}

// Begin implements Ledger.
func (l *File) Begin(_ context.Context, s Start) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.starts[s.Name] != nil {
		return nil
	}
	s.Scopes, s.Hosts = slices.Clone(s.Scopes), slices.Clone(s.Hosts)
	return l.write(fileLine{Begin: &s})
}

// Start implements Ledger.
func (l *File) Start(_ context.Context, name string) (Start, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.starts[name]
	if s == nil || s.ended {
		return Start{}, fmt.Errorf("%w: %s", ErrUnknownStart, name)
	}
	return Start{s.Name, slices.Clone(s.Scopes), slices.Clone(s.Hosts)}, nil
}

// End implements Ledger.
func (l *File) End(_ context.Context, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.starts[name]; s == nil || s.ended {
		return nil
	}
	return l.write(fileLine{End: name})
}

// Reserve implements Ledger.
func (l *File) Reserve(_ context.Context, start, model string, worst USD) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.starts[start]
	if s == nil || s.ended {
		return 0, fmt.Errorf("%w: %s", ErrUnknownStart, start)
	}
	for _, scope := range s.Scopes {
		if err := Over(scope, l.spent[scope.Key], worst); err != nil {
			return 0, err
		}
	}
	if err := l.write(fileLine{Reserve: &fileReserve{start, model, worst}}); err != nil {
		return 0, err
	}
	return int64(len(l.requests)), nil
}

// Settle implements Ledger.
func (l *File) Settle(_ context.Context, id int64, c Charge) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(fileLine{Settle: &fileSettle{id, c}})
}

// Refuse implements Ledger.
func (l *File) Refuse(_ context.Context, start string, r Refusal) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(fileLine{Refuse: &fileRefuse{start, r}})
}

// Reach implements Ledger. A name that is not known is an error before anything
// is written.
func (l *File) Reach(_ context.Context, start string, u run.HostUse) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.starts[start] == nil {
		return fmt.Errorf("%w: %s", ErrUnknownStart, start)
	}
	return l.write(fileLine{Reach: &fileReach{start, u}})
}

// Report implements Ledger.
func (l *File) Report(_ context.Context, start string) (Report, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	models := map[string]*ModelUse{}
	for _, r := range l.requests {
		if r.start != start {
			continue
		}
		m := models[r.model]
		if m == nil {
			m = &ModelUse{Model: r.model}
			models[r.model] = m
		}
		m.Requests++
		m.Tokens, m.Cost = m.Tokens.Add(r.charge.Tokens), m.Cost+r.charge.Cost
		if !r.settled {
			m.Open++
		}
	}
	var report Report
	for _, m := range slices.SortedFunc(maps.Values(models), func(a, b *ModelUse) int { return strings.Compare(a.Model, b.Model) }) {
		report.Models = append(report.Models, *m)
	}
	if s := l.starts[start]; s != nil {
		report.Refused, report.Hosts = slices.Clone(s.refused), slices.Clone(s.hosts)
	}
	return report, nil
}

// Spent implements Ledger.
func (l *File) Spent(_ context.Context, key string) (USD, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.spent[key], nil
}
