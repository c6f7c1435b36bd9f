package transcript

import (
	"archive/zip"
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/org/ralph-action/internal/redact"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/strs"
)

// The bounds of one archive, before it is compressed.
const (
	// HeadSize and TailSize are what is kept of the beginning and of the end of
	// each of the three texts, where there is more than both.
	HeadSize = 1 << 20
	TailSize = 7 << 20
)

// maxVerdicts bounds the list of a run, in bytes: it is written by the host, but
// holds words of agents.
const maxVerdicts = 1 << 20

// The parts of an archive.
const (
	metaPart    = "meta.json"
	PromptPart  = "prompt.md"
	StdoutPart  = "stdout"
	StderrPart  = "stderr"
	extension   = ".zip"
	verdictFile = "verdicts.jsonl"
	// Lists that were carried have a name between these.
	verdictPrefix = "verdicts-"
	verdictSuffix = ".jsonl"
)

// Start is what is known of one start of an agent beside its words.
type Start struct {
	Run       run.ID   `json:"run"`
	Name      string   `json:"start"`
	Iteration int      `json:"iteration"`
	Attempt   int      `json:"attempt,omitempty"`
	TaskID    string   `json:"task,omitempty"`
	Task      string   `json:"task_title,omitempty"`
	Role      run.Role `json:"role,omitempty"`
	Agent     string   `json:"agent,omitempty"`
	Model     string   `json:"model,omitempty"`
	// Sandbox is what kept the agent apart: "docker", "local (bubblewrap)".
	Sandbox string `json:"sandbox,omitempty"`

	// How it ended.
	Started  time.Time `json:"started,omitzero"`
	Finished time.Time `json:"finished,omitzero"`
	Outcome  string    `json:"outcome,omitempty"`
	Detail   string    `json:"detail,omitempty"`
	ExitCode int       `json:"exit_code"`
	Usage    run.Usage `json:"usage"`

	// Cut is how many bytes are left out in the middle of a part.
	Cut map[string]int64 `json:"cut,omitempty"`
}

// Verdict is what the host made of an iteration.
type Verdict struct {
	Time      time.Time     `json:"time"`
	Iteration int           `json:"iteration"`
	TaskID    string        `json:"task,omitempty"`
	Kind      run.EventKind `json:"kind"`
	Text      string        `json:"text"`
}

// Store keeps transcripts below a directory, which it makes for its owner only.
// It is safe for concurrent use, by several processes too.
type Store struct {
	dir  string
	mask *redact.Masker
	// to is where they are carried to, nothing where they stay here.
	to Elsewhere
	// carrying: one at a time does. mu is held while files change their names.
	carrying, mu sync.Mutex
}

// Open gives the store below dir, which need not be there. A nil Masker masks
// by pattern only.
func Open(dir string, mask *redact.Masker) *Store { return &Store{dir: dir, mask: mask} }

// Dir is where the transcripts of a run are.
func (s *Store) Dir(id run.ID) string { return filepath.Join(s.dir, string(id)) }

var nameRE = strs.Lazy(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// path is the archive of a start.
func (s *Store) path(id run.ID, iteration int, name, extension string) (string, error) {
	if !nameRE().MatchString(string(id)) || !nameRE().MatchString(name) {
		return "", fmt.Errorf("transcript: %q of run %q is no name of a start", name, id)
	}
	return filepath.Join(s.Dir(id), fmt.Sprintf("%04d-%s%s", iteration, name, extension)), nil
}

// Keep keeps what a start was told (prompt) and said. Where it is kept already
// nothing is read.
func (s *Store) Keep(st Start, prompt, stdout, stderr io.Reader) error {
	path, err := s.path(st.Run, st.Iteration, st.Name, extension)
	if err != nil {
		return err
	}
	return s.keep(st.Run, path, func(archive *zip.Writer) error {
		st.Cut = map[string]int64{}
		for _, p := range []part{{PromptPart, prompt}, {StdoutPart, stdout}, {StderrPart, stderr}} {
			cut, err := s.writePart(archive, p)
			if err != nil {
				return err
			}
			if cut > 0 {
				st.Cut[p.name] = cut
			}
		}
		st.Task, st.Detail = s.mask.Mask(st.Task), s.mask.Mask(st.Detail)
		return writeMeta(archive, st)
	})
}

// keep makes the archive of a run at path, unless it is there. It is there whole or
// not at all.
func (s *Store) keep(id run.ID, path string, write func(*zip.Writer) error) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	f, err := s.create(id)
	if err != nil {
		return fmt.Errorf("keep transcript: %w", err)
	}
	archive := zip.NewWriter(f)
	if err = write(archive); err == nil {
		err = archive.Close()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("keep transcript %s: %w", filepath.Base(path), err), os.Remove(f.Name()))
	}
	return nil
}

// create makes a file of a run that is no whole one yet.
func (s *Store) create(id run.ID) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.MkdirAll(s.Dir(id), 0o700); err != nil {
		return nil, err
	}
	return os.CreateTemp(s.Dir(id), newPrefix)
}

type part struct {
	name string
	text io.Reader
}

// writePart adds a text to an archive, masked and then bounded, and says how many bytes
// of its middle are left out.
func (s *Store) writePart(archive *zip.Writer, p part) (cut int64, err error) {
	w, err := archive.Create(p.name)
	if err != nil {
		return 0, err
	}
	both := &ends{w: w}
	mask := s.mask.Writer(both)
	if p.text != nil {
		if _, err := io.Copy(mask, p.text); err != nil {
			return 0, err
		}
	}
	if err := mask.Close(); err != nil {
		return 0, err
	}
	return both.finish()
}

func writeMeta(archive *zip.Writer, meta any) error {
	w, err := archive.Create(metaPart)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(meta)
}

// Note adds what the host made of an iteration to the list of the run; events
// that say nothing of that are passed over.
func (s *Store) Note(ev run.Event) error {
	text := ev.Text
	switch ev.Kind {
	case run.EventTaskDone, run.EventCommitted:
	case run.EventAttemptFailed, run.EventTaskBlocked, run.EventVerdict, run.EventTrouble, run.EventGateNote,
		run.EventGate:
	case run.EventRunEnded:
		text = strings.TrimSuffix(ev.Proof.Sentence(ev.End)+": "+ev.Text, ": ")
	default:
		return nil
	}
	if !nameRE().MatchString(string(ev.Run)) {
		return nil // an event of no run
	}
	line, err := json.Marshal(Verdict{
		Time: ev.Time, Iteration: ev.Iteration, TaskID: ev.TaskID, Kind: ev.Kind, Text: s.mask.Mask(text),
	})
	if err != nil {
		return fmt.Errorf("keep a verdict: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.MkdirAll(s.Dir(ev.Run), 0o700); err != nil {
		return fmt.Errorf("keep a verdict: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(s.Dir(ev.Run), verdictFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("keep a verdict: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.Size() < maxVerdicts {
		_, err = f.Write(append(line, '\n')) // in one piece, so that others see it whole
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("keep a verdict: %w", err)
	}
	return nil
}

// endList gives the list of verdicts a name of its own, by which it is carried.
func (s *Store) endList(id run.ID) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := verdictPrefix + rand.Text() + verdictSuffix
	return name, os.Rename(filepath.Join(s.Dir(id), verdictFile), filepath.Join(s.Dir(id), name))
}

// Verdicts are what the host made of a run's iterations, in order. Told twice,
// since a step may be repeated, they are listed once.
func (s *Store) Verdicts(ctx context.Context, id run.ID) ([]Verdict, error) {
	if !nameRE().MatchString(string(id)) {
		return nil, fs.ErrNotExist
	}
	names, err := s.names(ctx, id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read verdicts: %w", err)
	}
	var list []Verdict
	for _, name := range names {
		if name != verdictFile && !(strings.HasPrefix(name, verdictPrefix) && strings.HasSuffix(name, verdictSuffix)) {
			continue
		}
		if list, err = s.appendVerdicts(ctx, list, id, name); err != nil {
			return nil, fmt.Errorf("read verdicts: %w", err)
		}
	}
	if s.to.Files != nil { // there are several lists
		slices.SortStableFunc(list, func(a, b Verdict) int { return a.Time.Compare(b.Time) })
	}
	return list, nil
}

func (s *Store) appendVerdicts(ctx context.Context, list []Verdict, id run.ID, name string) ([]Verdict, error) {
	f, err := s.open(ctx, id, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(io.LimitReader(f, 2*maxVerdicts))
	lines.Buffer(nil, maxVerdicts)
	for lines.Scan() {
		var v Verdict
		if json.Unmarshal(lines.Bytes(), &v) != nil {
			continue // cut off by a power cut
		}
		again := slices.ContainsFunc(list, func(w Verdict) bool {
			return w.Iteration == v.Iteration && w.Kind == v.Kind && w.Text == v.Text && w.TaskID == v.TaskID
		})
		if !again {
			list = append(list, v)
		}
	}
	return list, lines.Err()
}

// Transcript is an archive that is open.
type Transcript struct {
	Start
	archive *archive
}

// Close closes the archive.
func (t *Transcript) Close() error { return t.archive.Close() }

// Part gives one of the texts.
func (t *Transcript) Part(name string) (io.ReadCloser, error) {
	r, err := t.archive.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read transcript: %w", err)
	}
	return r, nil
}

// Starts lists the archives of a run by name, in the order of their iterations
// and, within one, of their starts. fs.ErrNotExist where nothing of it is kept.
func (s *Store) Starts(ctx context.Context, id run.ID) ([]string, error) {
	return s.archives(ctx, id, extension)
}

func (s *Store) archives(ctx context.Context, id run.ID, extension string) ([]string, error) {
	all, err := s.names(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("list transcripts: %w", err)
	}
	var names []string
	for _, name := range all {
		if strings.HasSuffix(name, extension) && len(name) > 4 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(strings.Compare(a[:4], b[:4]), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	return names, nil
}

// archive is one that is open.
type archive struct {
	*zip.Reader
	io.Closer
}

// openArchive opens one and reads what it says of itself.
func (s *Store) openArchive(ctx context.Context, id run.ID, name string, about any) (_ *archive, err error) {
	f, err := s.open(ctx, id, name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	a := &archive{Closer: f}
	if a.Reader, err = zip.NewReader(f, info.Size()); err != nil {
		return nil, err
	}
	r, err := a.Open(metaPart)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // nothing was written
	return a, json.NewDecoder(r).Decode(about)
}

// Load opens an archive that Starts has listed.
func (s *Store) Load(ctx context.Context, id run.ID, name string) (*Transcript, error) {
	t := &Transcript{}
	var err error
	if t.archive, err = s.openArchive(ctx, id, name, &t.Start); err != nil {
		return nil, fmt.Errorf("open transcript %s: %w", name, err)
	}
	return t, nil
}

// Runs lists the runs of which something is kept, the latest last.
func (s *Store) Runs(ctx context.Context) ([]run.ID, error) {
	ids, err := s.here()
	if err != nil || s.to.Files == nil {
		return ids, err
	}
	all, err := s.carried(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range all {
		ids = append(ids, k.id)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
