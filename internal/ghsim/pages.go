package ghsim

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/fnv"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"

	"github.com/org/ralph-action/internal/strs"
)

//go:embed web/style.css web/pages.html
var web embed.FS

// pages renders what people look at. Everything is escaped by html/template;
// of the HTML in Markdown only a few plain tags are left; no script runs and
// nothing is fetched from anywhere.
type pages struct {
	tmpl *template.Template
	css  template.CSS
	md   goldmark.Markdown
}

func newPages() (*pages, error) {
	tmpl, err := template.ParseFS(web, "web/pages.html")
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	css, err := web.ReadFile("web/style.css")
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	return &pages{
		tmpl: tmpl,
		css:  template.CSS(css), //nolint:gosec // our own file
		md: goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(
			renderer.WithNodeRenderers(util.Prioritized(fewTags{}, 1)))),
	}, nil
}

// pageTop is what every page starts with.
type pageTop struct {
	Title, Nonce, Owner, Repo string
	CSS                       template.CSS
}

type pageUser struct {
	Login, Initial string
	Color          uint32
	Bot            bool
}

type pageReaction struct {
	Emoji string
	Count int
}

// pageEntry is a comment, a commit or an event of the timeline.
type pageEntry struct {
	Kind, Text, When, Anchor, Href, Short, Label string
	Author                                       pageUser
	HTML                                         template.HTML
	Verified                                     bool
	Reactions                                    []pageReaction
	Folded                                       string
	at                                           time.Time
}

type pageLine struct{ Class, Text string }

type pageFile struct {
	fileDiff

	Lines []pageLine
}

type pageCheck struct{ Mark, Name, Note, Href string }

type pageLink struct{ Href, Text, Note string }

type homePage struct {
	pageTop

	Links []pageLink
}

type commitPage struct {
	pageTop

	OID, Author, When, Body string
	Verified                bool
	Files                   []pageFile
}

type checkPage struct {
	pageTop
	pageCheck

	App              pageUser
	Commit, Started  string
	Conclusion       string
	Summary, Details template.HTML
	Buttons          []string
	Annotations      []Annotation
}

type issuePage struct {
	pageTop

	Heading           string
	Number            int
	State, StateClass string
	Author            pageUser
	Opened            string
	Pull, Merged      bool
	Head, Base        string
	CommitCount       int
	Entries           []pageEntry
	Labels, Reviews   []string
	Checks            []pageCheck
	Files             []pageFile
}

// servePage answers a browser.
func (s *Sim) servePage(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	nonce := base64.RawStdEncoding.EncodeToString(randomBytes(12))
	s.mu.Lock()
	name, data, err := s.page(strings.Split(strings.Trim(r.URL.Path, "/"), "/"), pageTop{Nonce: nonce, CSS: s.pages.css})
	s.mu.Unlock()
	if e, ok := errors.AsType[*Error](err); ok {
		http.Error(w, e.Message, e.Status)
		return
	}
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	s.writePage(w, http.StatusOK, name, data, nonce, "'none'")
}

// writePage sends a page whose forms go to forms only.
func (s *Sim) writePage(w http.ResponseWriter, status int, name string, data any, nonce, forms string) {
	var b bytes.Buffer
	if err := s.pages.tmpl.ExecuteTemplate(&b, name, data); err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+nonce+"'; base-uri 'none'; form-action "+
		forms+"; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the browser went away: nothing to tell it
}

// page finds out which page a path is, and what stands on it.
func (s *Sim) page(parts []string, top pageTop) (string, any, error) {
	if len(parts) == 1 {
		top.Title = "Repositories"
		p := homePage{pageTop: top}
		for _, name := range sortedKeys(s.repos) {
			r := s.repos[name]
			if parts[0] == "" || strings.EqualFold(parts[0], r.owner.login) {
				p.Links = append(p.Links, pageLink{Href: "/" + r.fullName(), Text: r.fullName(), Note: r.description})
			}
		}
		return "home", p, nil
	}
	r, err := s.repoByName(parts[0], parts[1])
	if err != nil {
		return "", nil, notFound()
	}
	top.Owner, top.Repo = r.owner.login, r.name
	switch {
	case len(parts) == 2, len(parts) == 3 && (parts[2] == "issues" || parts[2] == "pulls"):
		top.Title = "Issues and pull requests"
		p := homePage{pageTop: top}
		for _, i := range slices.Backward(r.issues) {
			kind := "issue"
			if i.pull != nil {
				kind = "pull request"
			}
			p.Links = append(p.Links, pageLink{
				Href: strings.TrimPrefix(s.issuePage(r, i), s.base), Text: "#" + strconv.Itoa(i.number) + " " + i.title,
				Note: kind + ", " + i.state(),
			})
		}
		return "home", p, nil
	case len(parts) == 4 && (parts[2] == "issues" || parts[2] == "pull"):
		n, err := strconv.Atoi(parts[3])
		if err != nil {
			return "", nil, notFound()
		}
		i := r.issue(n)
		if i == nil {
			return "", nil, notFound()
		}
		p, err := s.issuePageOf(r, i, top)
		return "issue", p, err
	case len(parts) == 4 && parts[2] == "runs":
		id, err := strconv.ParseInt(parts[3], 10, 64)
		if err != nil {
			return "", nil, notFound()
		}
		c, ok := find(r.checks, func(c *checkRun) bool { return c.id == id })
		if !ok {
			return "", nil, notFound()
		}
		p, err := s.checkPageOf(r, c, top)
		return "check", p, err
	case len(parts) == 4 && parts[2] == "commit":
		p, err := s.commitPageOf(r, parts[3], top)
		return "commit", p, err
	default:
		return "", nil, notFound()
	}
}

func (s *Sim) commitPageOf(r *repo, oid string, top pageTop) (commitPage, error) {
	c, err := r.git.commit(s.life, oid)
	if err != nil {
		return commitPage{}, notFound()
	}
	from := emptyTree
	if len(c.Parents) > 0 {
		from = c.Parents[0]
	}
	diffs, err := r.git.diff(s.life, from, oid)
	if err != nil {
		return commitPage{}, err
	}
	top.Title = c.subject()
	return commitPage{
		pageTop: top, OID: oid, Author: c.Author.Name, When: pageTime(c.Committer.When), Body: c.body(),
		Verified: r.signed[oid] != nil, Files: pageFiles(diffs),
	}, nil
}

// pageCheckOf is how a check run stands, in a line.
func pageCheckOf(r *repo, c *checkRun) pageCheck {
	mark, note := "●", c.status
	if c.status == "completed" {
		note = c.conclusion
		mark = cmp.Or(map[string]string{
			"success": "✓", "failure": "✗", "timed_out": "✗", "action_required": "!",
		}[c.conclusion], "■")
	}
	note = strings.ReplaceAll(note, "_", " ")
	if c.title != "" {
		note += " · " + c.title
	}
	return pageCheck{
		Mark: mark, Name: c.name, Note: note, Href: "/" + r.fullName() + "/runs/" + strconv.FormatInt(c.id, 10),
	}
}

func (s *Sim) checkPageOf(r *repo, c *checkRun, top pageTop) (checkPage, error) {
	top.Title = c.name + " · " + r.fullName()
	p := checkPage{
		pageTop: top, pageCheck: pageCheckOf(r, c), App: pageUserOf(c.app.bot), Commit: c.headOID,
		Started:    pageTime(c.started),
		Conclusion: c.conclusion, Buttons: c.labels, Annotations: c.annotations,
	}
	var err error
	if p.Summary, err = s.pages.markdown(c.summary); err != nil {
		return p, err
	}
	p.Details, err = s.pages.markdown(c.text)
	return p, err
}

func (s *Sim) issuePageOf(r *repo, i *issue, top pageTop) (issuePage, error) {
	top.Title = fmt.Sprintf("%s · #%d · %s", i.title, i.number, r.fullName())
	p := issuePage{
		pageTop: top, Heading: i.title, Number: i.number, State: "Open", StateClass: "open", Author: pageUserOf(i.user),
		Opened: pageTime(i.created),
	}
	for _, l := range i.labels {
		p.Labels = append(p.Labels, l.name)
	}
	if i.closed {
		p.State, p.StateClass = "Closed", "closed"
	}
	body := i.body
	if strings.TrimSpace(body) == "" {
		body = "*No description provided.*"
	}
	html, err := s.pages.markdown(body)
	if err != nil {
		return p, err
	}
	entries := []pageEntry{}
	for _, c := range i.comments {
		html, err := s.pages.markdown(c.body)
		if err != nil {
			return p, err
		}
		entries = append(entries, pageEntry{
			Kind: "comment", Text: "commented", Anchor: "issuecomment-" + strconv.FormatInt(c.id, 10),
			Author: pageUserOf(c.user),
			When:   pageTime(c.created), HTML: html, Reactions: pageReactions(c.reactions), Folded: c.folded, at: c.created,
		})
	}
	for _, e := range i.events {
		entries = append(entries, pageEvent(e))
	}
	if i.pull != nil {
		more, err := s.pullPage(r, i, &p)
		if err != nil {
			return p, err
		}
		entries = append(entries, more...)
	}
	entries = append(entries, linkedPulls(r, i)...)
	slices.SortStableFunc(entries, func(a, b pageEntry) int { return a.at.Compare(b.at) })
	first := pageEntry{
		Kind: "comment", Text: "opened", Anchor: "body", Author: p.Author, When: p.Opened, HTML: html,
		Reactions: pageReactions(i.reactions),
	}
	p.Entries = append([]pageEntry{first}, entries...)
	return p, nil
}

// linkedPulls are the pull requests that say that they close an issue.
func linkedPulls(r *repo, i *issue) []pageEntry {
	var entries []pageEntry
	for _, other := range r.issues {
		said := func(m []string) bool { return m[1] == strconv.Itoa(i.number) }
		if other.pull == nil || !slices.ContainsFunc(closes().FindAllStringSubmatch(other.body, -1), said) {
			continue
		}
		entries = append(entries, pageEntry{
			Kind: "event", Author: pageUserOf(other.user), Text: "linked a pull request that will close this issue:",
			When: pageTime(other.created), at: other.created,
			Href: fmt.Sprintf("/%s/pull/%d", r.fullName(), other.number), Short: fmt.Sprintf("#%d", other.number),
		})
	}
	return entries
}

// pullPage fills in what only pull requests have.
func (s *Sim) pullPage(r *repo, i *issue, p *issuePage) ([]pageEntry, error) {
	pl := i.pull
	p.Pull, p.Merged, p.Head, p.Base = true, pl.merged, pl.head, pl.base
	switch {
	case pl.merged:
		p.State, p.StateClass = "Merged", "merged"
	case i.closed:
		p.State, p.StateClass = "Closed", "pr-closed"
	case pl.draft:
		p.State, p.StateClass = "Draft", "draft"
	}
	commits, err := s.pullCommits(s.life, r, pl)
	if err != nil {
		return nil, err
	}
	p.CommitCount = len(commits)
	var entries []pageEntry
	for _, c := range commits {
		entries = append(entries, pageEntry{
			Kind: "commit", Text: c.subject(), Href: "/" + r.fullName() + "/commit/" + c.OID, Short: c.OID[:7],
			Verified: r.signed[c.OID] != nil, at: pl.arrived[c.OID],
		})
	}
	for _, rv := range pl.reviews {
		verb := map[string]string{"APPROVED": "approved these changes", "CHANGES_REQUESTED": "requested changes"}[rv.state]
		if verb == "" {
			verb = "reviewed"
		}
		var text strings.Builder
		text.WriteString(rv.body)
		for _, t := range pl.threads {
			for _, c := range t.comments {
				if c.review == rv {
					fmt.Fprintf(&text, "\n\n`%s` line %d, %s:\n\n> %s\n", strings.ReplaceAll(t.path, "`", "'"), t.line,
						c.user.login,
						strings.ReplaceAll(c.body, "\n", "\n> "))
				}
			}
		}
		html, err := s.pages.markdown(text.String())
		if err != nil {
			return nil, err
		}
		entries = append(entries, pageEntry{
			Kind: "comment", Text: verb, Anchor: "review-" + strconv.FormatInt(rv.id, 10), Author: pageUserOf(rv.user),
			When: pageTime(rv.submitted), HTML: html, at: rv.submitted,
		})
		p.Reviews = append(p.Reviews, rv.user.login+" "+verb)
	}
	for _, c := range r.checks {
		if c.headOID != pl.headOID {
			continue
		}
		p.Checks = append(p.Checks, pageCheckOf(r, c))
	}
	diffs, err := s.pullDiff(r, pl)
	p.Files = pageFiles(diffs)
	return entries, err
}

// markdown renders what somebody wrote.
func (p *pages) markdown(text string) (template.HTML, error) {
	var b bytes.Buffer
	if err := p.md.Convert([]byte(text), &b); err != nil {
		return "", fmt.Errorf("render Markdown: %w", err)
	}
	return template.HTML(b.String()), nil //nolint:gosec // goldmark escapes; raw HTML is off
}

// fewTags renders the HTML in Markdown: a few tags without attributes stay,
// comments go, everything else is shown as text.
type fewTags struct{}

var (
	plainTag    = strs.Lazy(`(?i)</?(?:details|summary|br|sub|sup|kbd)\s*/?>`)
	htmlComment = strs.Lazy(`(?s)<!--.*?(?:-->|$)`)
)

// RegisterFuncs implements renderer.NodeRenderer.
func (fewTags) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindHTMLBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus,
		error) {
		block, ok := n.(*ast.HTMLBlock)
		if !entering || !ok {
			return ast.WalkContinue, nil
		}
		text := block.Lines().Value(source)
		if block.HasClosure() {
			text = append(text, block.ClosureLine.Value(source)...)
		}
		return ast.WalkContinue, writeFewTags(w, string(text))
	})
	reg.Register(ast.KindRawHTML, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus,
		error) {
		raw, ok := n.(*ast.RawHTML)
		if !entering || !ok {
			return ast.WalkSkipChildren, nil
		}
		return ast.WalkSkipChildren, writeFewTags(w, string(raw.Segments.Value(source)))
	})
}

func writeFewTags(w util.BufWriter, text string) error {
	text = htmlComment().ReplaceAllString(text, "")
	var b strings.Builder
	at := 0
	for _, m := range plainTag().FindAllStringIndex(text, -1) {
		b.WriteString(template.HTMLEscapeString(text[at:m[0]]))
		b.WriteString(strings.ToLower(text[m[0]:m[1]]))
		at = m[1]
	}
	b.WriteString(template.HTMLEscapeString(text[at:]))
	_, err := w.WriteString(b.String())
	return err
}

func pageUserOf(u *user) pageUser {
	h := fnv.New32a()
	_, _ = h.Write([]byte(u.login)) // never fails
	return pageUser{
		Login: strings.TrimSuffix(u.login, "[bot]"), Initial: strings.ToUpper(u.login[:1]), Color: h.Sum32() % 8,
		Bot: u.kind == "Bot",
	}
}

func pageTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

func pageReactions(rs []*reaction) []pageReaction {
	emoji := []string{"👍", "👎", "😄", "😕", "❤️", "🎉", "🚀", "👀"}
	var out []pageReaction
	for n, content := range reactionContents() {
		count := 0
		for _, r := range rs {
			if r.content == content {
				count++
			}
		}
		if count > 0 {
			out = append(out, pageReaction{Emoji: emoji[n], Count: count})
		}
	}
	return out
}

func pageEvent(e *event) pageEntry {
	p := pageEntry{Kind: "event", Author: pageUserOf(e.actor), When: pageTime(e.at), at: e.at}
	switch e.kind {
	case "labeled":
		p.Text, p.Label = "added the label", e.label.name
	case "unlabeled":
		p.Text, p.Label = "removed the label", e.label.name
	case "renamed":
		p.Text = "changed the title from “" + e.from + "” to “" + e.to + "”"
	case "closed":
		p.Text = "closed this"
		if e.commit != "" {
			p.Text += " in " + e.commit[:7]
		}
	case "reopened":
		p.Text = "reopened this"
	case "merged":
		p.Text = "merged commit " + e.commit[:7]
	case "ready_for_review":
		p.Text = "marked this pull request as ready for review"
	case "convert_to_draft":
		p.Text = "marked this pull request as draft"
	case "head_ref_deleted":
		p.Text = "deleted the branch"
	case "head_ref_force_pushed":
		p.Text = "force-pushed the branch to " + e.commit[:7]
	default:
		p.Text = e.kind
	}
	return p
}

func pageFiles(diffs []fileDiff) []pageFile {
	var files []pageFile
	for _, d := range diffs {
		f := pageFile{fileDiff: d}
		for line := range strings.SplitSeq(d.Patch, "\n") {
			class := ""
			switch {
			case strings.HasPrefix(line, "@@"):
				class = "h"
			case strings.HasPrefix(line, "+"):
				class = "p"
			case strings.HasPrefix(line, "-"):
				class = "m"
			}
			if line != "" {
				f.Lines = append(f.Lines, pageLine{class, line})
			}
		}
		files = append(files, f)
	}
	return files
}
