package inline

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/plan"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/run"
)

// job is a plan as a person named it, and which run of the repository that is.
type job struct {
	plan    plan.Plan
	subject loop.Subject
	// file is the path of the plan file, and companion of what is kept beside it; "" for
	// none.
	file, companion string
	// spec: it is the folder of one; writes is the file of it that is written, "" where there
	// are tasks to work.
	spec   bool
	writes string
	// gone: the plan itself is not to be had, only the progress file of its run.
	gone bool
}

// Kinds of subjects, in front of their keys.
const (
	kindPlan  = "plan:"  // a file in the repository, by its path
	kindFile  = "file:"  // a file elsewhere
	kindWords = "words:" // no file at all
	// kindPromise is a prompt that is repeated until its promise is true.
	kindPromise = "promise:"
)

// inWords is what agents are told of where a plan without a file stands.
const inWords = "the command line"

// readJob reads what named stands for: a plan file, the progress file of a run,
// or the plan itself in words. dir is the working directory, top that of the
// repository.
func readJob(top, dir, named string) (job, error) {
	file := named
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	if isSentence(file, named) {
		return wordsJob(named)
	}
	if s, err := findSpec(top, file); err != nil || s.Folder != "" {
		if err != nil {
			return job{}, err
		}
		return s.job(top, dir, named)
	}
	rel, inside := below(top, file)
	if folder, ok := runFolder(rel); ok && inside {
		if j, ok, err := progressJob(top, dir, rel, folder); err != nil || ok {
			return j, err
		}
	}
	p, companion, err := readPlan(file, named, dir)
	if err != nil {
		return job{}, err
	}
	key, slug := kindPlan+rel, plan.FileSlug(rel)
	if !inside {
		base := filepath.Base(file)
		key, slug = kindFile+base+"#"+mark(rel), plan.FileSlug(base)
	}
	return job{
		plan: p, file: file, companion: companion,
		subject: loop.Subject{Key: key, Slug: slug, Name: p.Title, PlanFile: named},
	}, nil
}

// job is what the run is about.
func (o Options) job(top string) (job, error) {
	if o.Promise == "" {
		return readJob(top, o.Dir, o.PlanFile)
	}
	return o.promiseJob(top)
}

// promiseJob is a prompt, in a file or in words, that is repeated. A file is only read:
// it is no list of tasks that could be kept up to date.
func (o Options) promiseJob(top string) (job, error) {
	named := o.PlanFile
	file := named
	if !filepath.IsAbs(file) {
		file = filepath.Join(o.Dir, file)
	}
	var text, from, slug string
	switch {
	case isSentence(file, named):
		text, from, slug = named, inWords, plan.TextSlug(named)
	default:
		src, err := readText(file, named)
		if errors.Is(err, fs.ErrNotExist) {
			return job{}, errNoPlan(named)
		}
		if err != nil {
			return job{}, err
		}
		rel, inside := below(top, file)
		if !inside {
			rel = filepath.Base(file)
		}
		text, from, slug = string(src), named, plan.FileSlug(rel)
	}
	p, err := plan.FromPrompt(text, o.Promise)
	if errors.Is(err, plan.ErrEmpty) {
		return job{}, &run.UserError{Message: "the prompt is empty", Hint: "say what to do", Err: err}
	}
	if err != nil {
		return job{}, err
	}
	return job{plan: p, subject: loop.Subject{
		Key: kindPromise + slug + "#" + mark(p.Text), Slug: slug, Name: p.Title, PlanFile: from,
	}}, nil
}

// errNoPlan says that a file is not there.
func errNoPlan(named string) error {
	return &run.UserError{
		Message: "there is no plan " + named,
		Hint:    "write the plan into a Markdown file and pass its name, or pass a sentence that does not end in a file name",
	}
}

// isSentence says whether a person wrote the plan itself, and no name of a file.
func isSentence(file, named string) bool {
	if _, err := os.Lstat(file); err == nil || !strings.ContainsAny(strings.TrimSpace(named), " \n") {
		return false
	}
	switch strings.ToLower(filepath.Ext(named)) {
	case ".md", ".json", ".markdown", ".txt":
		return false
	}
	return true
}

func wordsJob(text string) (job, error) {
	p, err := plan.FromText(text)
	if errors.Is(err, plan.ErrEmpty) {
		return job{}, &run.UserError{Message: "the plan is empty", Hint: "say what to do, or pass a Markdown file", Err: err}
	}
	if err != nil {
		return job{}, err
	}
	slug := plan.TextSlug(p.Text)
	return job{
		plan:    p,
		subject: loop.Subject{Key: kindWords + slug + "#" + mark(p.Text), Slug: slug, Name: p.Title, PlanFile: inWords},
	}, nil
}

// mark tells apart what has one name.
func mark(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}

// below gives the path of file relative to top, with slashes, and whether it
// lies below. Links count as where they lead, the file itself among them: one file is one
// plan by whatever name.
func below(top, file string) (rel string, inside bool) {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(file)); err == nil {
		file = filepath.Join(dir, filepath.Base(file))
	}
	rel, err := filepath.Rel(top, file)
	if err != nil {
		return filepath.ToSlash(file), false
	}
	return filepath.ToSlash(rel), filepath.IsLocal(rel)
}

// runFolder is the folder below .ralph whose progress file the path names; ok is
// false where it names none.
func runFolder(rel string) (folder string, ok bool) {
	folder, below := strings.CutPrefix(rel, ".ralph/")
	folder, ok = strings.CutSuffix(folder, "/progress.md")
	return folder, below && ok && folder != "" && !strings.Contains(folder, "/")
}

// progressJob is the run that a progress file belongs to; ok is false where the
// file does not say.
func progressJob(top, dir, rel, folder string) (j job, ok bool, err error) {
	root, err := os.OpenRoot(top)
	if err != nil {
		return job{}, false, fmt.Errorf("open the checkout: %w", err)
	}
	defer func() { _ = root.Close() }()
	doc, err := progress.Read(root, rel)
	if errors.Is(err, fs.ErrNotExist) {
		return job{}, false, &run.UserError{
			Message: "there is no " + rel + " here", Hint: "check out that run's branch, or pass its plan", Err: err,
		}
	}
	if err != nil {
		return job{}, false, err
	}
	bound, ok := doc.Binding()
	if !ok {
		return job{}, false, nil
	}
	name, inRepo := strings.CutPrefix(bound.Key, kindPlan)
	if _, progress := runFolder(name); inRepo && !progress && filepath.IsLocal(name) {
		// Through the root, so that the name does not lead out of the checkout.
		if info, err := root.Stat(name); err == nil && info.Mode().IsRegular() {
			j, err := readJob(top, dir, filepath.Join(top, name))
			j.subject.Key, j.subject.PlanFile = bound.Key, name
			return j, err == nil, err
		}
	}
	p := plan.FromProgress(doc, bound.PlanSHA256)
	return job{gone: true, plan: p, subject: loop.Subject{
		Key: bound.Key, Slug: slugOf(bound.Key, folder), Name: p.Title, PlanFile: rel,
	}}, true, nil
}

// slugOf is the short name of the plan with that key, and folder where that does
// not tell.
func slugOf(key, folder string) string {
	kind, name, _ := strings.Cut(key, ":")
	bare := name[:max(strings.LastIndexByte(name, '#'), 0)]
	switch kind + ":" {
	case kindPlan:
		return plan.FileSlug(name)
	case kindFile:
		return plan.FileSlug(bare)
	case kindWords:
		return plan.Slug(bare)
	}
	return folder
}
