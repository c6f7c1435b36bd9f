package transcript

import (
	"archive/zip"
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	// newPrefix begins the name of a file that is being written.
	newPrefix = "new-"
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

// create makes a file of a run that gets its name once it is whole.
func (s *Store) create(id run.ID) (*os.File, error) {
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

// Verdicts are what the host made of a run's iterations, in order. Told twice,
// since a step may be repeated, they are listed once.
func (s *Store) Verdicts(id run.ID) ([]Verdict, error) {
	if !nameRE().MatchString(string(id)) {
		return nil, fs.ErrNotExist
	}
	f, err := os.Open(filepath.Join(s.Dir(id), verdictFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read verdicts: %w", err)
	}
	defer func() { _ = f.Close() }()
	var list []Verdict
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
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read verdicts: %w", err)
	}
	return list, nil
}

// Transcript is an archive that is open.
type Transcript struct {
	Start
	archive *zip.ReadCloser
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
func (s *Store) Starts(id run.ID) ([]string, error) { return s.archives(id, extension) }

func (s *Store) archives(id run.ID, extension string) ([]string, error) {
	if !nameRE().MatchString(string(id)) {
		return nil, fs.ErrNotExist
	}
	entries, err := os.ReadDir(s.Dir(id))
	if err != nil {
		return nil, fmt.Errorf("list transcripts: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), extension) {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(strings.Compare(a[:4], b[:4]), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	return names, nil
}

// Load opens an archive that Starts has listed.
func (s *Store) Load(id run.ID, name string) (*Transcript, error) {
	if !nameRE().MatchString(string(id)) || !filepath.IsLocal(name) || filepath.Base(name) != name {
		return nil, fs.ErrNotExist
	}
	t := &Transcript{}
	var err error
	if t.archive, err = s.openArchive(id, name, &t.Start); err != nil {
		return nil, fmt.Errorf("open transcript %s: %w", name, err)
	}
	return t, nil
}

// openArchive opens one and reads what it says of itself.
func (s *Store) openArchive(id run.ID, name string, about any) (*zip.ReadCloser, error) {
	archive, err := zip.OpenReader(filepath.Join(s.Dir(id), name))
	if err != nil {
		return nil, err
	}
	r, err := archive.Open(metaPart)
	if err == nil {
		err = json.NewDecoder(r).Decode(about)
		_ = r.Close() // nothing was written
	}
	if err != nil {
		return nil, errors.Join(err, archive.Close())
	}
	return archive, nil
}

// Runs lists the runs of which something is kept, the latest last.
func (s *Store) Runs() ([]run.ID, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list transcripts: %w", err)
	}
	var ids []run.ID
	for _, e := range entries {
		if e.IsDir() && nameRE().MatchString(e.Name()) {
			ids = append(ids, run.ID(e.Name())) // they begin with their time
		}
	}
	return ids, nil
}
