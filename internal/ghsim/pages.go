package ghsim

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"
)

//go:embed pages.html
var pagesSource string

// pageEntry is a comment, a commit or an event of the timeline.
type pageEntry struct {
	Who, Did, When, Anchor, Reactions, Badge string
	HTML                                     template.HTML // of a comment
	at                                       time.Time
}

type pageCheck struct{ State, Mark, Name, Note, Href string }

// pageData is what stands on a page: a list of links, an issue or pull request, a check run, or a commit.
type pageData struct {
	Title, Nonce, State, About string
	Text                       string // as it is
	Links                      []pageCheck
	Labels                     []string
	Entries                    []pageEntry
	Annotations                []Annotation
	Buttons                    []string
	App                        *newApp
}

// servePage answers a browser. What people and agents wrote is shown with the HTML in it, which is inert: the
// policy of the page lets nothing run, load, submit or refresh.
func (s *Sim) servePage(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	s.mu.Lock()
	data, err := s.page(strings.Split(strings.Trim(r.URL.Path, "/"), "/"))
	s.mu.Unlock()
	if e, ok := errors.AsType[*Error](err); ok {
		http.Error(w, e.Message, e.Status)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.writePage(w, http.StatusOK, data, "form-action 'none'; sandbox")
}

// writePage sends a page under a policy.
func (s *Sim) writePage(w http.ResponseWriter, status int, data pageData, policy string) {
	data.Nonce = base64.RawStdEncoding.EncodeToString(randomBytes(12))
	var b bytes.Buffer
	if err := s.pages.Execute(&b, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+data.Nonce+
		"'; base-uri 'none'; frame-ancestors 'none'; "+policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the browser went away: nothing to tell it
}

// page finds out which page a path is, and what stands on it.
func (s *Sim) page(parts []string) (pageData, error) {
	if len(parts) == 1 && parts[0] == "" {
		data := pageData{Title: "Issues and pull requests"}
		for _, name := range sortedKeys(s.repos) {
			for _, i := range slices.Backward(s.repos[name].issues) {
				data.Links = append(data.Links, pageCheck{
					Href: s.issuePage(s.repos[name], i), Name: fmt.Sprintf("%s#%d", name, i.number), Note: i.title,
				})
			}
		}
		return data, nil
	}
	if len(parts) != 4 {
		return pageData{}, notFound()
	}
	r, err := s.repoByName(parts[0], parts[1])
	if err != nil {
		return pageData{}, notFound()
	}
	if c, err := r.git.commit(parts[3]); err == nil && parts[2] == "commit" {
		text, err := r.git.run(s.life, "show", "--format=fuller", "--stat", "--patch", c.OID)
		return pageData{Title: c.subject(), About: r.fullName(), Text: string(text)}, err
	}
	id, err := strconv.ParseInt(parts[3], 10, 64)
	if err != nil {
		return pageData{}, notFound()
	}
	switch parts[2] {
	case "issues", "pull":
		if i := r.issue(int(id)); i != nil {
			return s.issueData(r, i)
		}
	case "runs":
		if c, ok := find(r.checks, func(c *checkRun) bool { return c.id == id }); ok {
			return s.checkData(r, c)
		}
	}
	return pageData{}, notFound()
}

// checkLink is how a check run stands, in a line.
func (s *Sim) checkLink(r *repo, c *checkRun) pageCheck {
	state := cmp.Or(c.conclusion, c.status)
	mark := cmp.Or(map[string]string{
		"success": "✓", "failure": "✗", "timed_out": "✗", "action_required": "!", "queued": "●", "in_progress": "●",
	}[state], "■")
	note := strings.ReplaceAll(state, "_", " ")
	if c.title != "" {
		note += " · " + c.title
	}
	return pageCheck{
		State: state, Mark: mark, Name: c.name, Note: note, Href: fmt.Sprintf("%s/runs/%d", s.html(r), c.id),
	}
}

func (s *Sim) checkData(r *repo, c *checkRun) (pageData, error) {
	link := s.checkLink(r, c)
	data := pageData{
		Title: c.name, State: link.State, Buttons: c.labels, Annotations: c.annotations,
		About: link.Mark + " " + link.Note + ", by " + c.app.bot.login + " on commit " + c.headOID[:7],
	}
	for _, text := range []string{c.summary, c.text} {
		if err := data.add(c.app.bot, "says", text, c.started, pageEntry{}); err != nil {
			return data, err
		}
	}
	return data, nil
}

func (s *Sim) issueData(r *repo, i *issue) (pageData, error) {
	data := pageData{
		Title: fmt.Sprintf("%s #%d", i.title, i.number), State: i.state(), About: r.fullName(),
		Labels: shapes(i.labels, func(l *label) string { return l.name }),
	}
	body := cmp.Or(strings.TrimSpace(i.body), "*No description provided.*")
	err := data.add(i.user, "opened this", body, i.created, pageEntry{Reactions: emojis(i.reactions)})
	for _, c := range i.comments {
		err = errors.Join(err, data.add(c.user, "commented", c.body, c.created, pageEntry{
			Anchor: fmt.Sprintf("issuecomment-%d", c.id), Reactions: emojis(c.reactions),
		}))
	}
	for _, e := range i.events {
		data.Entries = append(data.Entries, pageEntry{Who: e.actor.login, Did: eventText(e), When: pageTime(e.at), at: e.at})
	}
	if i.pull != nil {
		err = errors.Join(err, s.addPull(&data, r, i.pull))
	}
	slices.SortStableFunc(data.Entries, func(a, b pageEntry) int { return a.at.Compare(b.at) })
	return data, err
}

// addPull adds what only pull requests have.
func (s *Sim) addPull(data *pageData, r *repo, p *pull) error {
	if p.merged {
		data.State = "merged"
	} else if p.draft && data.State == "open" {
		data.State = "draft"
	}
	data.About += fmt.Sprintf(": %s ← %s, %d commits", p.base, p.head, len(p.commits))
	commits, err := s.pullCommits(r, p)
	for _, c := range commits {
		e := pageEntry{
			Who: c.Author.Name, Did: "committed " + c.OID[:7] + ": " + c.subject(), When: pageTime(c.Committer.When),
			at: p.arrived[c.OID],
		}
		if r.signed[c.OID] != nil {
			e.Badge = "Verified"
		}
		data.Entries = append(data.Entries, e)
	}
	for _, rv := range p.reviews {
		did := cmp.Or(map[string]string{
			"APPROVED": "approved these changes", "CHANGES_REQUESTED": "requested changes",
		}[rv.state], "reviewed")
		var text strings.Builder
		text.WriteString(rv.body)
		for _, t := range p.threads {
			for _, c := range t.comments {
				if c.review == rv {
					fmt.Fprintf(&text, "\n\n`%s` line %d, %s:\n\n> %s\n", strings.ReplaceAll(t.path, "`", "'"), t.line,
						c.user.login, strings.ReplaceAll(c.body, "\n", "\n> "))
				}
			}
		}
		err = errors.Join(err, data.add(rv.user, did, text.String(), rv.submitted,
			pageEntry{Anchor: fmt.Sprintf("pullrequestreview-%d", rv.id)}))
	}
	for _, c := range r.checks {
		if c.headOID == p.headOID {
			data.Links = append(data.Links, s.checkLink(r, c))
		}
	}
	return err
}

// add puts something that somebody wrote in Markdown on the page.
func (d *pageData) add(who *user, did, text string, at time.Time, e pageEntry) error {
	if text == "" {
		return nil
	}
	var b bytes.Buffer
	md := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(html.WithUnsafe()))
	if err := md.Convert([]byte(text), &b); err != nil {
		return fmt.Errorf("render Markdown: %w", err)
	}
	e.Who, e.Did, e.When, e.at = who.login, did, pageTime(at), at
	e.HTML = template.HTML(b.String()) //nolint:gosec // inert under the policy of the page
	d.Entries = append(d.Entries, e)
	return nil
}

func pageTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// emojis are reactions with how many of each there are.
func emojis(rs []*reaction) string {
	var out []string
	for n, content := range reactionContents() {
		count := 0
		for _, r := range rs {
			if r.content == content {
				count++
			}
		}
		if count > 0 {
			out = append(out, fmt.Sprintf("%s %d", []string{"👍", "👎", "😄", "😕", "❤️", "🎉", "🚀", "👀"}[n], count))
		}
	}
	return strings.Join(out, " ")
}

func eventText(e *event) string {
	switch e.kind {
	case "labeled":
		return "added the label " + e.label.name
	case "unlabeled":
		return "removed the label " + e.label.name
	case "renamed":
		return "changed the title from “" + e.from + "” to “" + e.to + "”"
	case "merged":
		return "merged commit " + e.commit[:7]
	case "ready_for_review":
		return "marked this pull request as ready for review"
	case "convert_to_draft":
		return "marked this pull request as draft"
	case "closed", "reopened":
		return e.kind + " this"
	default:
		return strings.ReplaceAll(e.kind, "_", " ")
	}
}
