// Command tour plays what docs/tour.md tells and takes the pictures of it: the
// real App, served by bin/bot, works issues of a simulated GitHub, whose pages a
// browser without a screen renders. Run it with `make tour`.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/org/ralph-action/internal/ghapp"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/handlers"
	"github.com/org/ralph-action/internal/proc"
)

const (
	person   = "ada"
	stranger = "eve"
	repo     = "textkit"
	// patience bounds a scene.
	patience = 10 * time.Minute
	// width of the pictures, and the height that a page is given at the most.
	width, maxHeight = 1100, 5000
)

func main() {
	bot := flag.String("bot", "bin/bot", "the program")
	browser := flag.String("browser", "chromium-headless-shell", "the browser")
	out := flag.String("out", "docs/images", "where the pictures go")
	only := flag.String("scene", "", "the only scene to play, by its name; without it all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *bot, *browser, *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "tour:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bot, browser, out, only string) error {
	bot, err := filepath.Abs(bot)
	if err != nil {
		return err
	}
	if browser, err = proc.Look(browser); err != nil {
		return err
	}
	all := scenes()
	if only != "" {
		all = slices.DeleteFunc(all, func(s scene) bool { return s.name != only })
	}
	if len(all) == 0 {
		return fmt.Errorf("there is no scene %q", only)
	}
	for _, s := range all {
		fmt.Fprintln(os.Stderr, "tour:", s.name)
		if err := s.play(ctx, bot, browser, out); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// scene is one story, with the script of its agent.
type scene struct {
	name, script string
	// act does what people do and waits for what comes of it.
	act func(ctx context.Context, s *stage) error
	// shots are the pages that are pictured, by name: "issue", "pull", "check".
	shots []string
}

// stuckScript: the last task never compiles, on a line that is at the head of the
// branch, too.
const stuckScript = `tasks:
  T1: [{files: {report.json: "{}\n"}, say: Done., cost_usd: 0.02}]
  T2: [{append: {README.md: "\nScripts ask for --json.\n"}, say: Done., cost_usd: 0.02}]
  T3:
    - files:
        cmd/textkit/main.go: |
          // Command textkit counts what is in its standard input.
          package main

          import (
          	"fmt"
          	"io"
          	"os"

          	"example.com/textkit"
          )

          func main() {
          	text, err := io.ReadAll(os.Stdin)
          	if err != nil {
          		fmt.Fprintln(os.Stderr, "textkit:", err)
          		os.Exit(1)
          	}
          	fmt.Println(textkit.Count(string(text)).JSON())
          }
      say: The README describes the flag, and the example in it works.
      cost_usd: 0.02
`

func scenes() []scene {
	return []scene{
		{"finished", "", func(ctx context.Context, s *stage) error {
			return errors.Join(s.label(person), s.until(ctx, s.has("ralph:done")))
		}, []string{"issue", "pull", "check"}},
		{"stopped",
			"tasks:\n  T1: [{files: {report.json: \"{}\\n\"}, say: Done., cost_usd: 0.02}]\ndefault: [{misbehave: hang}]\n", func(ctx context.Context, s *stage) error {
				return errors.Join(s.label(person), s.until(ctx, s.landed), s.say(person, "/ralph stop"),
					s.until(ctx, s.has("ralph:paused")))
			}, []string{"issue", "pull", "check"}},
		{"refused", "", func(ctx context.Context, s *stage) error {
			return errors.Join(s.label(stranger), s.until(ctx, s.answered))
		}, []string{"issue"}},
		{"stuck", stuckScript, func(ctx context.Context, s *stage) error {
			return errors.Join(s.label(person), s.until(ctx, s.has("ralph:needs-human")))
		}, []string{"check"}},
		{"failed",
			"tasks:\n  T1: [{files: {report.json: \"{}\\n\"}, say: Done., cost_usd: 0.02}]\ndefault: [{use: [{tool: Read, file: cmd/textkit/main.go}], misbehave: crash}]\n", func(ctx context.Context, s *stage) error {
				return errors.Join(s.label(person), s.until(ctx, s.has("ralph:needs-human")))
			}, []string{"issue", "pull", "check"}},
	}
}

func (sc scene) play(ctx context.Context, bot, browser, out string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := newStage(ctx, bot, sc.script)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	if err := sc.act(ctx, s); err != nil {
		return fmt.Errorf("%w\n%s", err, s.log.String())
	}
	if err := s.sim.WaitIdle(ctx); err != nil {
		return err
	}
	for _, shot := range sc.shots {
		path, err := s.page(shot)
		if err != nil {
			return err
		}
		if err := s.picture(ctx, browser, path, filepath.Join(out, "tour-"+sc.name+"-"+shot+".png")); err != nil {
			return err
		}
	}
	return nil
}

// stage is a GitHub with people, a repository and an App that serves it.
type stage struct {
	dir   string
	sim   *ghsim.Sim
	issue ghsim.Issue
	log   bytes.Buffer
	stop  context.CancelFunc
	ended chan struct{}
}

// newStage sets the stage with the repository, issue and, unless it says
// otherwise, script of the demonstration.
func newStage(ctx context.Context, bot, script string) (_ *stage, err error) {
	s := &stage{ended: make(chan struct{}), stop: func() {}}
	if s.dir, err = os.MkdirTemp("", "ralph-tour-"); err != nil {
		return nil, err
	}
	if s.sim, err = ghsim.New(ghsim.Options{Dir: s.dir}); err != nil { //nolint:contextcheck // it has a life of its own, ended by Close
		return nil, err
	}
	url, err := s.sim.Start("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	registered, err := s.populate()
	if err != nil {
		return nil, err
	}
	if script == "" {
		b, err := os.ReadFile("cmd/bot/demo/script.yaml")
		if err != nil {
			return nil, err
		}
		script = string(b)
	} else {
		script = "model: scripted-demo\n" + script
	}
	listen, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.sim.SetHook(registered.ID, "http://"+listen+handlers.DefaultPath, ""); err != nil {
		return nil, err
	}
	cfg := fmt.Sprintf("listen: %s\ndata_dir: data\ngithub: {api_url: %q, graphql_url: %q, web_url: %q, app_id: %d, "+
		"private_key_file: app.pem}\n"+
		"agent: {name: script, script_file: script.yaml}\nsandbox: {kind: local}\nallow_local_sandbox: true\n"+
		"log: {format: console}\n",
		listen, url+"/api/v3/", url+"/api/graphql", url, registered.ID)
	for name, text := range map[string]string{"ralph.yaml": cfg, "app.pem": string(registered.PrivateKeyPEM)} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	// Agents are another user where the App is root.
	err = errors.Join(os.WriteFile(filepath.Join(s.dir, "script.yaml"), []byte(script), 0o644), os.Chmod(s.dir, 0o755)) //nolint:gosec // a directory of our own, and a script that is to be read
	if err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(ctx)
	s.stop = stop
	home, err := os.UserCacheDir() // for Go's build cache
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(s.ended)
		_, err := proc.Run(serving, proc.Cmd{
			Path: bot, Args: []string{"serve", "--config", filepath.Join(s.dir, "ralph.yaml")}, Stderr: &s.log,
			Env: proc.ScrubbedEnv("RALPH_WEBHOOK_SECRET="+registered.WebhookSecret, "HOME="+filepath.Dir(home),
				"XDG_CACHE_HOME="+home),
		})
		if err != nil && serving.Err() == nil {
			fmt.Fprintln(os.Stderr, "tour: the App stopped:", err)
		}
	}()
	return s, waitFor(ctx, listen)
}

func (s *stage) populate() (ghsim.App, error) {
	for _, login := range []string{person, stranger} {
		if _, err := s.sim.CreateUser(login); err != nil {
			return ghsim.App{}, err
		}
	}
	source, err := os.ReadFile("cmd/bot/demo/repo.txtar")
	if err != nil {
		return ghsim.App{}, err
	}
	body, err := os.ReadFile("cmd/bot/demo/issue.md")
	if err != nil {
		return ghsim.App{}, err
	}
	files := map[string]string{}
	for _, f := range txtar.Parse(source).Files {
		files[f.Name] = string(f.Data)
	}
	if _, err := s.sim.CreateRepo(person, repo, ghsim.RepoOptions{Files: files}); err != nil {
		return ghsim.App{}, err
	}
	if err := s.sim.SetPermission(person, repo, stranger, ghsim.RoleTriage); err != nil {
		return ghsim.App{}, err
	}
	app, err := s.sim.CreateApp(ghsim.AppOptions{
		Slug: "ralph-bot", Permissions: ghapp.Permissions(), Events: handlers.Subscriptions(),
	})
	if err != nil {
		return ghsim.App{}, err
	}
	if _, err := s.sim.Install(app.ID, person+"/"+repo); err != nil {
		return ghsim.App{}, err
	}
	s.issue, err = s.sim.CreateIssue(person, repo, person, "Let scripts ask textkit for JSON", string(body))
	return app, err
}

func (s *stage) close(ctx context.Context) error {
	s.stop()
	<-s.ended
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return errors.Join(s.sim.Close(ctx), os.RemoveAll(s.dir))
}

func (s *stage) label(login string) error {
	return s.sim.AddLabel(person, repo, s.issue.Number, login, "ralph")
}

func (s *stage) say(login, text string) error {
	_, err := s.sim.Comment(person, repo, s.issue.Number, login, text)
	return err
}

func (s *stage) until(ctx context.Context, condition func() bool) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-s.ended:
			return errors.New("the App stopped")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s *stage) has(label string) func() bool {
	return func() bool {
		i, err := s.sim.Issue(person, repo, s.issue.Number)
		return err == nil && slices.Contains(i.Labels, label)
	}
}

func (s *stage) answered() bool {
	i, err := s.sim.Issue(person, repo, s.issue.Number)
	return err == nil && len(i.Comments) > 0
}

// landed: the first task is on the pull request.
func (s *stage) landed() bool {
	prs, err := s.sim.PRs(person, repo)
	return err == nil && len(prs) > 0 && len(prs[0].Commits) > 0 && strings.Contains(prs[0].Body, "- [x] T1")
}

// page is the path of a page that is pictured.
func (s *stage) page(shot string) (string, error) {
	switch shot {
	case "issue":
		return fmt.Sprintf("/%s/%s/issues/%d", person, repo, s.issue.Number), nil
	case "pull":
		prs, err := s.sim.PRs(person, repo)
		if err != nil || len(prs) == 0 {
			return "", fmt.Errorf("there is no pull request: %w", err)
		}
		return fmt.Sprintf("/%s/%s/pull/%d", person, repo, prs[0].Number), nil
	default:
		all, err := s.sim.CheckRuns(person, repo)
		if err != nil || len(all) == 0 {
			return "", fmt.Errorf("there is no check run: %w", err)
		}
		return fmt.Sprintf("/%s/%s/runs/%d", person, repo, all[len(all)-1].ID), nil
	}
}

// shown is what stands in a picture for what differs each time; the pictures are
// to differ only where the product does.
var shown = []struct {
	differs *regexp.Regexp
	stands  string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d UTC`), "2026-03-01 09:00 UTC"},
	{regexp.MustCompile(`\d{8}-\d{6}-[a-z2-7]{12}`), "20260301-090000-a2b3c4d5e6f7"},
	{regexp.MustCompile(`(passed in|failed in|completed,) [0-9.hms]+`), "$1 1.2s"},
	// The tour is about what is said, not about the code.
	{regexp.MustCompile(`(?s)<h2 class="files">Files changed.*</body>`), "</body>"},
}

// picture has the browser render a page, and stores what is to be seen.
func (s *stage) picture(ctx context.Context, browser, path, file string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.sim.URL()+path, http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	html, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil || res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %w", path, res.Status, err)
	}
	for _, s := range shown {
		html = s.differs.ReplaceAll(html, []byte(s.stands))
	}
	page, shot := filepath.Join(s.dir, "page.html"), filepath.Join(s.dir, "shot.png")
	if err := os.WriteFile(page, html, 0o600); err != nil {
		return err
	}
	_, err = proc.Run(ctx, proc.Cmd{
		Path: browser,
		Args: []string{
			// Root may not use the browser's own sandbox; the page is ours.
			"--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1",
			fmt.Sprintf("--window-size=%d,%d", width, maxHeight), "--screenshot=" + shot, "file://" + page,
		},
		Env: proc.ScrubbedEnv("HOME=" + s.dir),
	})
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(shot) //nolint:gosec // G304: a file of our own
	if err != nil {
		return err
	}
	img, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("read the picture: %w", err)
	}
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&b, small(img)); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	fmt.Fprintf(os.Stderr, "tour: %s, %d kB\n", file, b.Len()/1000)
	return os.WriteFile(file, b.Bytes(), 0o644) //nolint:gosec // G306: for everybody to look at
}

// margin is what is left white below the last thing on a page.
const margin = 24

// small cuts off the white end of a picture and leaves it 256 colours.
func small(img image.Image) image.Image {
	box := img.Bounds()
	used := map[color.RGBA]int{}
	bottom := box.Min.Y
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			r, g, b, _ := img.At(x, y).RGBA()
			c := color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255} //nolint:gosec // G115: the shift leaves eight bits
			used[c]++
			if c != (color.RGBA{255, 255, 255, 255}) {
				bottom = y
			}
		}
	}
	box.Max.Y = min(bottom+margin, box.Max.Y)
	colours := make([]color.RGBA, 0, len(used))
	for c := range used {
		colours = append(colours, c)
	}
	slices.SortFunc(colours, func(a, b color.RGBA) int {
		if used[a] != used[b] {
			return used[b] - used[a]
		}
		return (int(a.R)<<16 + int(a.G)<<8 + int(a.B)) - (int(b.R)<<16 + int(b.G)<<8 + int(b.B))
	})
	out := image.NewPaletted(box, palette(colours))
	draw.Draw(out, box, img, box.Min, draw.Src)
	return out
}

// palette takes most of its colours from the front, which are those that are used
// most, and the others so that no colour of the rest is far from all of them: an
// emoji is small, and red.
func palette(colours []color.RGBA) color.Palette {
	const size, front = 256, 160
	out := color.Palette{}
	for _, c := range colours[:min(len(colours), front)] {
		out = append(out, c)
	}
	rest := colours[len(out):]
	for len(out) < size && len(rest) > 0 {
		best, far := 0, -1
		for i, c := range rest {
			near := out[out.Index(c)].(color.RGBA) //nolint:forcetypeassert // there is nothing else in it
			if d := distance(c, near); d > far {
				best, far = i, d
			}
		}
		out = append(out, rest[best])
		rest = slices.Delete(rest, best, best+1)
	}
	return out
}

func distance(a, b color.RGBA) int {
	r, g, c := int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B)
	return r*r + g*g + c*c
}

func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// waitFor waits until something listens.
func waitFor(ctx context.Context, address string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}
