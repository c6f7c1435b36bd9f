package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/httpd"
	"github.com/org/ralph-action/internal/loop"
	"github.com/org/ralph-action/internal/progress"
	"github.com/org/ralph-action/internal/reconcile"
	"github.com/org/ralph-action/internal/review"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// adminHost is the name that clients of the admin socket call the server by.
const adminHost = "ralph-bot"

// adminConns bounds the connections to the admin socket and to the metrics.
const adminConns = 32

// adminSocket is where a server with that data directory takes the operator's commands:
// a socket in a directory that only the server's own user can enter. There is no port
// that a stranger or a browser's page could reach, and no password to keep.
func adminSocket(dataDir string) string { return filepath.Join(dataDir, "admin", "bot.sock") }

// maxSocketPath is what the path of a socket may have in bytes, on every system.
const maxSocketPath = 103

// listenAdmin opens the admin socket. Of two servers with one data directory the later
// one has it. The listener's Close removes the socket unless it is another server's.
func listenAdmin(ctx context.Context, dataDir string) (net.Listener, error) {
	path := adminSocket(dataDir)
	fresh := path + strconv.Itoa(os.Getpid())
	if len(fresh) > maxSocketPath {
		return nil, &run.UserError{
			Message: fmt.Sprintf("the path of data_dir is too long: a socket at %s can have %d characters at most",
				fresh, maxSocketPath),
			Hint: "set data_dir to a directory with a shorter path",
		}
	}
	dir := filepath.Dir(path)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o700) //nolint:gosec // G302: a directory
	}
	if err == nil {
		err = remove(fresh)
	}
	if err != nil {
		return nil, fmt.Errorf("make room for the admin socket: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", fresh)
	if err != nil {
		return nil, fmt.Errorf("listen on the admin socket: %w", err)
	}
	if unix, ok := l.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(false)
	}
	err = os.Chmod(fresh, 0o600)
	if err == nil {
		err = os.Rename(fresh, path) // from a server that was killed, or still stops
	}
	info, serr := os.Lstat(path)
	if err := errors.Join(err, serr); err != nil {
		return nil, errors.Join(fmt.Errorf("open the admin socket: %w", err), l.Close(), remove(fresh))
	}
	return &socket{Listener: l, path: path, info: info}, nil
}

// remove removes a file that need not be there.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// socket removes its file when it is closed, unless another has its place.
type socket struct {
	net.Listener

	path string
	info os.FileInfo
}

// Close implements net.Listener.
func (s *socket) Close() error {
	err := s.Listener.Close()
	if info, lerr := os.Lstat(s.path); lerr == nil && os.SameFile(info, s.info) {
		err = errors.Join(err, remove(s.path))
	}
	return err
}

// startAdmin serves the admin socket, and the metrics where the configuration says.
// What it returns ends that.
func (a *app) startAdmin(ctx context.Context) (end func(context.Context) error, err error) {
	var servers []*http.Server
	end = func(ctx context.Context) error {
		var errs []error
		for _, s := range servers {
			if err := s.Shutdown(ctx); err != nil {
				errs = append(errs, s.Close())
			}
		}
		return errors.Join(errs...)
	}
	serve := func(l net.Listener, h http.Handler) {
		s := httpd.New(h)
		s.BaseContext = func(net.Listener) context.Context { return a.log.WithContext(context.WithoutCancel(ctx)) }
		s.ErrorLog = slog.NewLogLogger(zerolog.NewSlogHandler(a.log), slog.LevelWarn)
		servers = append(servers, s)
		go func() {
			if err := s.Serve(httpd.Limit(l, adminConns, 0)); !errors.Is(err, http.ErrServerClosed) {
				a.log.Error().Err(err).Msg("the admin listener ended")
			}
		}()
	}
	l, err := listenAdmin(ctx, a.cfg.DataDir)
	long, tooLong := errors.AsType[*run.UserError](err)
	switch {
	case tooLong: // the work does not need it
		a.log.Warn().Str("hint", long.Hint).Msg("no command of the operator can reach this server: " + long.Message)
	case err != nil:
		return end, err
	default:
		serve(l, onlyHost(func(host string) bool { return host == adminHost }, a.admin()))
	}
	if a.cfg.MetricsListen == "" {
		return end, nil
	}
	if l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", a.cfg.MetricsListen); err != nil {
		return end, &run.UserError{
			Message: "cannot listen on " + a.cfg.MetricsListen + ": " + err.Error(),
			Hint:    "choose another address with metrics_listen", Err: err,
		}
	}
	a.metricsAddr = l.Addr().String()
	a.log.Info().Str("metrics", a.metricsAddr).Msg("serving metrics")
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", a.metrics.handler())
	own, _, _ := net.SplitHostPort(a.cfg.MetricsListen)
	serve(l, onlyHost(func(host string) bool {
		_, err := netip.ParseAddr(host)
		return err == nil || host == "localhost" || own != "" && host == own
	}, mux))
	return end, nil
}

// onlyHost refuses what a page in a browser sends, also under a name that leads here:
// its requests name the page's own host, or where they come from.
func onlyHost(may func(host string) bool, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if !may(strings.Trim(host, "[]")) || r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
			http.Error(w, "not for browsers", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// admin answers the operator.
func (a *app) admin() http.Handler {
	mux := http.NewServeMux()
	for pattern, answer := range map[string]func(*http.Request) (any, error){
		"GET /runs":              a.listRuns,
		"GET /runs/{id}":         a.showRun,
		"POST /runs/{id}/{verb}": a.operateRun,
		"GET /queue":             a.askQueue,
		"POST /pause":            a.pause,
		"POST /drain":            a.drain,
		"POST /resume":           a.resume,
		"GET /audit":             a.listDecisions,
		"POST /gc":               a.gc,
		"POST /reload":           func(r *http.Request) (any, error) { return a.reload(r.Context()) },
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			out, err := answer(r)
			a.answer(w, out, err)
		})
	}
	mux.Handle("GET /metrics", a.metrics.handler())
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// adminError is how the operator is told of an error.
type adminError struct {
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func (a *app) answer(w http.ResponseWriter, out any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		e := adminError{Message: err.Error()}
		status := http.StatusInternalServerError
		if user, ok := errors.AsType[*run.UserError](err); ok {
			e, status = adminError{Message: user.Message, Hint: user.Hint}, http.StatusUnprocessableEntity
		} else {
			a.log.Error().Err(err).Msg("a command of the operator failed")
		}
		out = e
		w.WriteHeader(status)
	}
	// Whoever has gone away does not miss it.
	_ = json.NewEncoder(w).Encode(out)
}

// serverRun is a run of a server, as `bot runs --config` and `bot show --config` print it.
type serverRun struct {
	ID    run.ID `json:"id"`
	Repo  string `json:"repo"`
	Issue int    `json:"issue"`
	Pull  int    `json:"pull,omitempty"`
	Title string `json:"title"`
	Phase string `json:"phase"`
	// Held: it waits until starts are resumed.
	Held bool `json:"held,omitempty"`
	// Waits is what it waits for before it can start something, and Place where it stands
	// in its repository's line.
	Waits      string    `json:"waits,omitempty"`
	Place      int       `json:"place,omitempty"`
	End        string    `json:"end,omitempty"`
	Detail     string    `json:"detail,omitempty"`
	Stopping   string    `json:"stopping,omitempty"`
	Done       int       `json:"tasks_done"`
	Total      int       `json:"tasks_total"`
	Iterations int       `json:"iterations"`
	CostUSD    float64   `json:"cost_usd"`
	Began      time.Time `json:"began"`
	Updated    time.Time `json:"updated"`
	// Tasks and Commits are told of a single run.
	Tasks   []serverTask `json:"tasks,omitempty"`
	Branch  string       `json:"branch,omitempty"`
	Commits []string     `json:"commits,omitempty"`
}

type serverTask struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// runOf is what the operator is told of a run. State is what can be read of it.
func runOf(row store.Run, held bool, standing reconcile.ActiveRun) (serverRun, loop.State) {
	out := serverRun{
		ID: row.ID, Repo: row.RepoOwner + "/" + row.RepoName, Issue: row.IssueNumber, Pull: row.PullNumber,
		Phase: string(row.Phase), End: string(row.EndReason), Began: row.CreatedAt, Updated: row.UpdatedAt,
		Waits: standing.Waits, Place: standing.Place,
	}
	if !row.CancelRequestedAt.IsZero() && !row.Phase.Terminal() {
		out.Stopping = row.CancelBy
	}
	s, err := loop.Decode(row.State)
	if err != nil {
		out.Detail = "what is stored of the run cannot be read: " + err.Error()
		return out, s
	}
	out.Title, out.Detail, out.Iterations, out.CostUSD = s.Subject.Name, s.EndDetail, s.Iterations(), run.Dollars(s.Usage.CostUSD)
	out.Done, out.Total = progress.Counts(tasksOf(s))
	out.Held = held && !row.Phase.Terminal() && s.StartsAgent()
	return out, s
}

// maxListed bounds how many ended runs are listed.
const maxListed = 50

func (a *app) listRuns(r *http.Request) (any, error) {
	rows, err := a.store.RecentRuns(r.Context(), maxListed)
	if err != nil {
		return nil, err
	}
	active, err := a.store.ActiveRuns(r.Context())
	if err != nil {
		return nil, err
	}
	tell, err := a.teller(r.Context())
	if err != nil {
		return nil, err
	}
	recent := map[run.ID]bool{}
	for _, row := range rows {
		recent[row.ID] = true
	}
	out := []serverRun{}
	add := func(row store.Run) {
		one, _ := tell(row)
		out = append(out, one)
	}
	for _, row := range active { // an old one that still runs
		if !recent[row.ID] {
			add(row)
		}
	}
	for _, row := range rows {
		add(row)
	}
	return out, nil
}

// teller gives what tells the operator of a run as things are now.
func (a *app) teller(ctx context.Context) (func(store.Run) (serverRun, loop.State), error) {
	held, err := a.held(ctx)
	if err != nil {
		return nil, err
	}
	all, err := reconcile.ReadAdmission(ctx, a.store, 0)
	if err != nil {
		return nil, err
	}
	standing := make(map[run.ID]reconcile.ActiveRun, len(all.Runs))
	for _, s := range all.Runs {
		standing[s.Run] = s
	}
	return func(row store.Run) (serverRun, loop.State) { return runOf(row, held, standing[row.ID]) }, nil
}

// findRun gives the run that a request names by its id, or by how that begins.
func (a *app) findRun(r *http.Request) (store.Run, error) {
	id := r.PathValue("id")
	rows, err := a.store.RunsLike(r.Context(), id)
	switch {
	case err != nil:
		return store.Run{}, err
	case len(rows) == 0:
		return store.Run{}, &run.UserError{
			Message: fmt.Sprintf("the server knows no run %q", id), Hint: "list the runs without naming one",
		}
	case len(rows) > 1:
		return store.Run{}, &run.UserError{Message: fmt.Sprintf("several runs begin with %q", id), Hint: "write more of the ID"}
	}
	return rows[0], nil
}

func (a *app) showRun(r *http.Request) (any, error) {
	row, err := a.findRun(r)
	if err != nil {
		return nil, err
	}
	tell, err := a.teller(r.Context())
	if err != nil {
		return nil, err
	}
	out, s := tell(row)
	out.Branch = s.Branch
	for _, t := range tasksOf(s) {
		out.Tasks = append(out.Tasks, serverTask{ID: t.ID, Title: t.Title, Status: string(t.Status), Reason: t.Reason})
	}
	for _, c := range s.Commits {
		if c.OID != "" {
			out.Commits = append(out.Commits, fmt.Sprintf("%.10s %s", c.OID, c.Subject))
		}
	}
	return out, nil
}

// operateRun stops a run, or has blocked tasks of one tried again.
func (a *app) operateRun(r *http.Request) (any, error) {
	row, err := a.findRun(r)
	if err != nil {
		return nil, err
	}
	cmd := review.Command{Verb: review.Verb(r.PathValue("verb")), Task: r.FormValue("task")}
	if cmd.Verb != review.VerbStop && cmd.Verb != review.VerbRetry {
		return nil, &run.UserError{Message: fmt.Sprintf("%q is nothing that can be done with a run", cmd.Verb)}
	}
	said, err := a.deliveries.Operate(r.Context(), row, cmd)
	if err != nil {
		return nil, err
	}
	if said != "" {
		return nil, &run.UserError{Message: strings.TrimSuffix(said, ".")}
	}
	row, err = a.store.LatestRunByIssue(r.Context(), row.RepoNode, row.IssueNumber)
	if err != nil {
		return nil, err
	}
	out, _ := runOf(row, false, reconcile.ActiveRun{})
	return out, nil
}

// queueState is what `bot queue` prints.
type queueState struct {
	// Paused is since when no new agent is started, by `bot pause`; Draining until this
	// process ends.
	Paused   *time.Time `json:"paused,omitempty"`
	Draining bool       `json:"draining,omitempty"`
	// Waiting counts webhooks that nobody has dealt with, OldestSeconds is the age of the
	// oldest.
	Waiting       int64   `json:"webhooks_waiting"`
	OldestSeconds float64 `json:"oldest_seconds"`
	// Working counts runs that are at work, Held those that wait until starts are
	// resumed, Line those that wait for a place or for the machine, and Asleep those that
	// wait for a time.
	Working int `json:"runs_working"`
	Held    int `json:"runs_held"`
	Line    int `json:"runs_in_line"`
	Asleep  int `json:"runs_asleep"`
	// Places are how many agents and checks are at work, of at most MaxPlaces (0 for any
	// number).
	Places    int `json:"places_taken"`
	MaxPlaces int `json:"places"`
}

func (a *app) askQueue(r *http.Request) (any, error) {
	return a.queueState(r.Context())
}

// queueState says what waits.
func (a *app) queueState(ctx context.Context) (queueState, error) {
	b, err := a.store.Backlog(ctx)
	if err != nil {
		return queueState{}, err
	}
	since, err := a.store.Paused(ctx)
	if err != nil {
		return queueState{}, err
	}
	out := queueState{Waiting: b.Waiting, Draining: a.draining.Load()}
	if !since.IsZero() {
		out.Paused = &since
	}
	if !b.Oldest.IsZero() {
		out.OldestSeconds = max(a.sweeper.Now().Sub(b.Oldest).Seconds(), 0)
	}
	active, err := a.store.ActiveRuns(ctx)
	if err != nil {
		return queueState{}, err
	}
	all, err := reconcile.ReadAdmission(ctx, a.store, a.current.admission.Load().Agents)
	if err != nil {
		return queueState{}, err
	}
	out.Places, out.MaxPlaces = all.Running, all.Limit
	waits := map[run.ID]bool{}
	for _, s := range all.Runs {
		waits[s.Run] = s.Waits != ""
	}
	held := out.Draining || out.Paused != nil
	for _, row := range active {
		s, err := loop.Decode(row.State)
		switch {
		case err != nil: // that of a newer version, for instance; its tick tells of it
		case held && s.StartsAgent() && row.CancelRequestedAt.IsZero():
			out.Held++
		case waits[row.ID]:
			out.Line++
		case !s.WaitUntil.IsZero() && s.Process == nil:
			out.Asleep++
		default:
			out.Working++
		}
	}
	return out, nil
}

// held says whether no new agent may be started; it is reconcile.Config.Hold.
func (a *app) held(ctx context.Context) (bool, error) {
	if a.draining.Load() {
		return true, nil
	}
	since, err := a.store.Paused(ctx)
	return !since.IsZero(), err
}

// pause has no new agent be started, and says how things are then.
func (a *app) pause(r *http.Request) (any, error) {
	return a.changed(r.Context(), "pause", a.deliveries.Pause(r.Context()))
}

// drain does so until the server is started again.
func (a *app) drain(r *http.Request) (any, error) {
	err := a.deliveries.Operated(r.Context(), "drain")
	if err == nil {
		a.draining.Store(true)
	}
	return a.changed(r.Context(), "drain", err)
}

// resume has agents be started again.
func (a *app) resume(r *http.Request) (any, error) {
	err := a.deliveries.Resume(r.Context())
	if err == nil {
		a.draining.Store(false)
	}
	return a.changed(r.Context(), "resume", err)
}

func (a *app) changed(ctx context.Context, command string, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	a.log.Info().Str("command", command).Msg("the operator's command was carried out")
	return a.queueState(ctx)
}

// auditLine is a decision about trust, as `bot audit` prints it.
type auditLine struct {
	At       time.Time `json:"at"`
	Repo     string    `json:"repo,omitempty"`
	Issue    int       `json:"issue,omitempty"`
	Person   string    `json:"person"`
	Action   string    `json:"action"`
	Allowed  bool      `json:"allowed"`
	Reason   string    `json:"reason,omitempty"`
	Delivery string    `json:"delivery,omitempty"`
}

func (a *app) listDecisions(r *http.Request) (any, error) {
	number := func(name string) int {
		n, _ := strconv.Atoi(r.FormValue(name)) // the client has checked it
		return n
	}
	f := store.DecisionFilter{
		Repo: r.FormValue("repo"), Person: r.FormValue("person"), Issue: number("issue"),
		Refused: r.FormValue("refused") == "true",
		Limit:   cmp.Or(number("limit"), 100),
	}
	list, err := a.store.Decisions(r.Context(), f)
	if err != nil {
		return nil, err
	}
	out := []auditLine{}
	for _, d := range list {
		out = append(out, auditLine(d))
	}
	return out, nil
}

// gcLine is a kind of what was removed, as `bot gc` prints it.
type gcLine struct {
	Kind  string `json:"kind"`
	Count int64  `json:"count"`
	Bytes int64  `json:"bytes,omitempty"`
}

func (a *app) gc(r *http.Request) (any, error) {
	dry := r.FormValue("dry_run") == "true"
	lines, err := a.collect(r.Context(), dry)
	if err != nil || dry {
		return lines, err
	}
	return lines, a.deliveries.Operated(r.Context(), "gc")
}

// collect removes what nobody needs any more and says what that was; dry says only what
// it would be.
func (a *app) collect(ctx context.Context, dry bool) ([]gcLine, error) {
	a.collecting.Lock()
	defer a.collecting.Unlock()
	lines := []gcLine{}
	pruned, err := a.store.Prunable(ctx, a.sweeper.Now())
	if !dry && err == nil {
		pruned, err = a.store.Prune(ctx, a.sweeper.Now(), digestOf)
	}
	for _, l := range []gcLine{
		{Kind: "bodies of webhooks", Count: pruned.Bodies}, {Kind: "webhooks", Count: pruned.Deliveries},
		{Kind: "runs", Count: pruned.Runs}, {Kind: "decisions", Count: pruned.Decisions},
	} {
		if l.Count > 0 {
			lines = append(lines, l)
		}
	}
	garbage, gerr := a.reconciler.CollectGarbage(ctx, dry)
	for _, g := range garbage {
		lines = append(lines, gcLine{Kind: g.Kind, Count: int64(g.Count), Bytes: g.Bytes})
	}
	return lines, errors.Join(err, gerr)
}
