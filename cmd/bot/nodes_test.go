//go:build postgres

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/ghsim"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
	"github.com/org/ralph-action/internal/store/pgtest"
)

const twoFiles = `model: scripted
tasks:
  one: [{files: {one.txt: "1\n"}, say: done}]
default: [{files: {two.txt: "2\n"}, say: done}]
`

// node is the stage for one of several servers that share a database.
func (st *stage) node(n int) *stage {
	other := *st
	other.config.DataDir = st.dataDirs[n]
	// Nobody else takes a port there while the server is down.
	other.config.Listen = freeAddrOf(st.t, "127.0.77.1")
	return &other
}

// newCluster is a stage for servers with a data directory each.
func newCluster(t *testing.T, url string, nodes int, set setting) *stage {
	t.Helper()
	set.change = onPostgres(url)
	st := newStage(t, set)
	for n := range nodes {
		st.dataDirs = append(st.dataDirs, filepath.Join(st.dir, fmt.Sprint("n", n)))
	}
	return st
}

// balancer sends each webhook to one of some servers, and to the next where that does not take it.
type balancer struct {
	t     testing.TB
	addrs []string
	next  atomic.Int64
}

// ServeHTTP implements http.Handler.
func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for range b.addrs {
		addr := b.addrs[int(b.next.Add(1))%len(b.addrs)]
		if status := b.send(r, addr, body); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	http.Error(w, "no server", http.StatusBadGateway)
}

// send gives the status that a server answers with, 0 for none of use.
func (b *balancer) send(r *http.Request, addr string, body []byte) int {
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.Method, "http://"+addr+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		b.t.Error(err)
		return 0
	}
	req.Header = r.Header.Clone()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode >= http.StatusInternalServerError {
		return 0
	}
	return resp.StatusCode
}

func (st *stage) balance(addrs ...string) {
	st.t.Helper()
	proxy := httptest.NewServer(&balancer{t: st.t, addrs: addrs})
	st.t.Cleanup(proxy.Close)
	st.hook(proxy.Listener.Addr().String())
}

// TestServersShareRuns: each works some, an operator drains one of them, and the other goes on
// with what it had.
func TestServersShareRuns(t *testing.T) {
	t.Parallel()
	st := newCluster(t, pgtest.URL(t), 2, setting{script: twoFiles})
	first, second := st.node(0), st.node(1)
	s := first.serve()
	s2 := second.serve()
	var issues []ghsim.Issue
	for n := range 4 {
		issues = append(issues, st.label(fmt.Sprint("Say hello ", n), "- [ ] Write one\n- [ ] Write two\n"))
	}
	began := func(s *serving) (n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, ev := range s.events {
			if ev.Kind == run.EventRunStarted {
				n++
			}
		}
		return n
	}
	for _, issue := range issues {
		if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete {
			t.Errorf("#%d ended %s: %s", issue.Number, state.End, state.EndDetail)
		}
	}
	if a, b := began(s), began(s2); a+b != 4 || a == 0 || b == 0 {
		t.Errorf("one began %d runs, the other %d", a, b)
	}

	st.t.Log("drain the second")
	nodes, err := s.store.Nodes(t.Context())
	st.must(err)
	if len(nodes) != 2 {
		t.Fatalf("%+v", nodes)
	}
	first.writeConfig()
	op := first.operator()
	if out := op.does("nodes"); !strings.Contains(out, nodes[0].Name) || !strings.Contains(out, nodes[1].Name) {
		t.Errorf("nodes: %s", out)
	}
	if out := op.does("drain", "--node", s2.node); !strings.Contains(out, "Nothing is at work there.") {
		t.Errorf("drain: %s", out)
	}
	if out := op.does("nodes"); strings.Count(out, "draining") != 1 {
		t.Errorf("nodes: %s", out)
	}
	before := began(s2)
	for n := range 2 {
		issue := st.label(fmt.Sprint("Say more ", n), "- [ ] Write one\n- [ ] Write two\n")
		issues = append(issues, issue)
		if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete {
			t.Errorf("#%d ended %s: %s", issue.Number, state.End, state.EndDetail)
		}
	}
	if began(s2) != before {
		t.Error("the server that is drained began a run")
	}
	op.does("resume", "--node", s2.node)
	st.settled(s)
	for _, issue := range issues {
		st.complete(issue, "feat: write one", "feat: write two")
	}
	s.stop()
	s2.stop()
	st.checkWorld()
}

// TestServerIsGone: what a killed server had goes on at another within half a minute, and what it
// left is tidied up by itself when it comes back.
func TestServerIsGone(t *testing.T) {
	t.Parallel()
	// The first agent hangs.
	st := newCluster(t, pgtest.URL(t), 2, setting{script: fmt.Sprintf(`model: scripted
state: %q
tasks:
  one: [{misbehave: hang}, {files: {one.txt: "1\n"}, say: done}]
default: [{files: {two.txt: "2\n"}, say: done}]
`, filepath.Join(shortTempDir(t), "starts.json"))})
	first, second := st.node(0), st.node(1)
	file := first.writeConfig()
	p := first.startProgram(theProgram(t), "serve", "--config", file)
	first.waitHealthy(p)
	st.hook(p.addr)
	watch, err := store.Open(t.Context(), st.config.Database())
	st.must(err)
	defer func() { st.must(watch.Close()) }()
	issue := st.label("Say hello", "- [ ] Write one\n- [ ] Write two\n")
	st.await("an agent to be at work", func() bool {
		nodes, err := watch.Nodes(t.Context())
		st.must(err)
		return len(nodes) == 1 && nodes[0].Working == 1
	})
	moved := make(chan struct{}, 10)
	s := second.serveApp(zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel), func(ev run.Event) {
		if ev.Kind == run.EventAgentStarted {
			moved <- struct{}{}
		}
	})
	killServer(t, p)
	killed := time.Now()
	<-moved
	if took := time.Since(killed); took > 30*time.Second {
		t.Errorf("an agent began after %s", took)
	}
	if state := st.ended(s.store, issue); state.End != run.EndAllTasksComplete || len(state.Attempts) != 0 {
		t.Errorf("ended %s, attempts %v: %s", state.End, state.Attempts, state.EndDetail)
	}
	p = first.startProgram(theProgram(t), "serve", "--config", file)
	first.waitHealthy(p)
	p.stop(t)
	st.hook(s.addr)
	st.settled(s)
	st.complete(issue, "feat: write one", "feat: write two")
	s.stop()
	st.checkWorld()
}

// TestThreeServers kills, stops and starts three servers, and cuts them off from the database, at
// instants that nobody chose while runs begin. In the end nothing is lost and nothing doubled.
func TestThreeServers(t *testing.T) {
	t.Parallel()
	lasts, most, every := 60*time.Second, 8, 5*time.Second
	if fullSize() {
		lasts, most = 600*time.Second, 200
	}
	d := rollDice(t)
	pg := pgtest.Start(t)
	url := pg.URL(t)
	st := newCluster(t, url, 3, setting{script: twoFiles})
	st.config.Concurrency = config.Concurrency{Agents: 8, Repository: 100}
	var nodes []*stage
	var files, addrs []string
	var alive []*process
	var links []*pgtest.Relay
	for n := range 3 {
		node := st.node(n)
		links = append(links, pg.Relay(t))
		node.config.DatabaseURL = links[n].URL(t, url)
		nodes, files, addrs = append(nodes, node), append(files, node.writeConfig()), append(addrs, node.config.Listen)
		alive = append(alive, node.startProgram(theProgram(t), "serve", "--config", files[n]))
	}
	st.balance(addrs...)
	for n, p := range alive {
		nodes[n].waitHealthy(p)
	}
	var issues []ghsim.Issue
	begin := time.Now()
	kills, stops, cuts := 0, 0, 0
	busy := make([]chan struct{}, len(alive)) // closed once nothing is done to a server any more
	for n := range busy {
		busy[n] = make(chan struct{})
		close(busy[n])
	}
	for next := begin; time.Since(begin) < lasts; {
		share := float64(time.Since(begin)) / float64(lasts*3/4)
		for len(issues) < most && float64(len(issues)) <= share*float64(most) {
			issues = append(issues, st.label(fmt.Sprint("Say hello ", len(issues)), "- [ ] Write one\n- [ ] Write two\n"))
		}
		next = next.Add(every)
		rest(time.Until(next))
		n := int(d.upTo(3))
		select {
		case <-busy[n]:
		default:
			continue
		}
		busy[n] = make(chan struct{})
		switch what := d.upTo(3); what {
		case 0:
			kills++
			killServer(t, alive[n])
			go func() {
				defer close(busy[n])
				rest(d.upTo(6 * every)) // half of the time it is taken for gone
				alive[n] = nodes[n].startProgram(theProgram(t), "serve", "--config", files[n])
			}()
		case 1:
			stops++
			sendSignal(t, alive[n], syscall.SIGSTOP)
			go func() {
				defer close(busy[n])
				rest(d.upTo(6 * every))
				sendSignal(t, alive[n], syscall.SIGCONT)
			}()
		default:
			cuts++
			links[n].Cut()
			go func() {
				defer close(busy[n])
				rest(d.upTo(6 * every))
				links[n].Join()
			}()
		}
	}
	for _, b := range busy {
		<-b
	}
	for n, p := range alive {
		nodes[n].waitHealthy(p)
	}
	watch, err := store.Open(t.Context(), st.config.Database())
	st.must(err)
	defer func() { st.must(watch.Close()) }()
	s := &serving{app: &app{store: watch}}
	for _, issue := range issues {
		if state := st.ended(watch, issue); state.End != run.EndAllTasksComplete || len(state.Attempts) != 0 {
			t.Errorf("#%d ended %s, attempts %v: %s", issue.Number, state.End, state.Attempts, state.EndDetail)
		}
	}
	st.settled(s)
	for _, issue := range issues {
		st.complete(issue, "feat: write one", "feat: write two")
	}
	st.await("the servers to let go of what others took from them", func() bool {
		return len(st.leftovers()) == 0
	})
	for _, p := range alive {
		p.stop(t)
	}
	st.checkWorld()
	t.Logf("%d runs, %d kills, %d stops, %d cuts", len(issues), kills, stops, cuts)
}

// TestStandbyTakesOver: the primary dies, and its standby lacks what was committed last, a webhook and a
// run among it. Nothing is lost and nothing doubled.
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	pg := pgtest.Start(t)
	url := pg.URL(t)
	standby := pg.Standby(t)
	link := pg.Relay(t)
	st := newCluster(t, link.URL(t, url), 2, setting{script: twoFiles})
	landed := make(chan struct{}, 100)
	watch := func(ev run.Event) {
		if ev.Kind == run.EventTaskDone {
			landed <- struct{}{}
		}
	}
	log := zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	s, s2 := st.node(0).serveApp(log, watch), st.node(1).serveApp(log, watch)
	st.balance(s.addr, s2.addr)
	var issues []ghsim.Issue
	for n := range 4 {
		issues = append(issues, st.label(fmt.Sprint("Say hello ", n), "- [ ] Write one\n- [ ] Write two\n"))
	}
	<-landed
	standby.CatchUp(t)
	standby.Link.Cut()
	// What happens from here on is on GitHub, and not in the database.
	<-landed
	<-landed
	late := st.label("Say hello late", "- [ ] Write one\n- [ ] Write two\n")
	st.must(st.sim.WaitIdle(t.Context()))
	pg.Kill(t)
	standby.Promote(t)
	link.LeadTo(standby.Server)
	st.watchOthers()
	issues = append(issues, late)
	for _, issue := range issues {
		st.await(fmt.Sprintf("the end of #%d", issue.Number), func() bool {
			row, err := s.store.LatestRunByIssue(t.Context(), st.repo.NodeID, issue.Number)
			return err == nil && row.Phase.Terminal()
		})
	}
	st.settled(s)
	st.forgets = true
	for _, issue := range issues {
		st.complete(issue, "feat: write one", "feat: write two")
	}
	s.stop()
	s2.stop()
	for _, left := range st.leftovers() {
		t.Errorf("still there: %s", left)
	}
}

// killServer kills a server and waits for its end. Its agents go on.
func killServer(t *testing.T, p *process) {
	t.Helper()
	sendSignal(t, p, syscall.SIGKILL)
	_ = p.cmd.Wait() // it was killed
}

func sendSignal(t *testing.T, p *process, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Error(err)
	}
}
