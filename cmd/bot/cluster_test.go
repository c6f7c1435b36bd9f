//go:build docker

package main

import (
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// standIns are what the images of others are made of where no registry is reached: Debian's
// packages, started as those images are.
var standIns = map[string]string{
	"haproxy:lts-alpine": `
RUN apt-get update && apt-get install --yes --no-install-recommends haproxy
USER haproxy
`,
	"postgres:17-alpine": `
RUN apt-get update && apt-get install --yes --no-install-recommends postgresql
ENV PATH=/usr/lib/postgresql/15/bin:/usr/bin:/bin PGDATA=/var/lib/postgresql/data
RUN mkdir -p $PGDATA /var/run/postgresql && chown postgres:postgres $PGDATA && chmod 3777 /var/run/postgresql
RUN printf '%s\n' '[ -s $PGDATA/PG_VERSION ] || {' 'echo "$POSTGRES_PASSWORD" >/tmp/password' \
	'initdb --username=$POSTGRES_USER --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256' \
	'echo "CREATE DATABASE $POSTGRES_USER;" | postgres --single -D $PGDATA postgres' \
	'echo host all all all scram-sha-256 >>$PGDATA/pg_hba.conf; }' \
	'exec postgres -c listen_addresses=*' >/entrypoint
ENTRYPOINT ["sh", "-eu", "/entrypoint"]
`,
}

// buildStandIns makes the images that the engine does not have.
func buildStandIns(t *testing.T) {
	t.Helper()
	for name, rest := range standIns {
		if code, _ := dockerRun(t, "image", "inspect", name); code == 0 {
			continue
		}
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "docker", "build", "-t", name, "-")
		cmd.Stdin = strings.NewReader("FROM " + debianImage + "\n" + rest)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
		t.Cleanup(func() { dockerRun(t, "image", "rm", "--force", name) })
	}
}

// The blocks of commands of docs/operations.md, in their order.
const (
	stepCluster = iota
	stepNodes
	clusterSteps
)

// clusterWithCompose follows docs/operations.md to two bots on one database, behind a proxy. The
// one that has a run is killed while its agent is at work: the other finishes the run, and no
// webhook is refused meanwhile.
func clusterWithCompose(t *testing.T, version string) {
	buildStandIns(t)
	steps := composeSteps(t, "operations.md", "### Two bots with compose", clusterSteps)
	thinking, answer := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(answer) })
	n := newComposed(t, version, version+"-two", writer(thinking, answer))
	t.Cleanup(goOn)
	n.data = []string{"data-1", "data-2"}
	down, up, _ := strings.Cut(steps[stepCluster], "\n")
	n.do(down)
	n.override("bot-1", "bot-2")
	n.do(strings.Replace(up, "=compose.cluster.yaml", "=compose.cluster.yaml:compose.override.yaml", 1))
	n.install()
	nodes := func(of string) (working []serverNode) {
		t.Helper()
		var all []serverNode
		asked := strings.Replace(strings.Replace(steps[stepNodes], "bot-1", of, 1), "nodes", "nodes --json", 1)
		if err := json.Unmarshal([]byte(n.do(asked)), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	n.await("both bots to be there", func() bool { return len(nodes("bot-1")) == 2 })

	n.label("Say hello to everybody", threeTasks)
	<-thinking
	has := slices.IndexFunc(n.data, func(data string) bool { return len(n.sandboxesOf(data)) == 1 })
	if has < 0 || len(n.sandboxes()) != 1 {
		t.Fatalf("at work: %+v; want one container", n.sandboxes())
	}
	bots := []string{"bot-1", "bot-2"}
	n.do("docker compose kill " + bots[has])
	n.wroteAll()
	goOn()
	if err := n.sim.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	deliveries, err := n.sim.Deliveries(n.app.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deliveries {
		if d.StatusCode/100 != 2 {
			t.Errorf("%s.%s was answered with %d", d.Event, d.Action, d.StatusCode)
		}
	}
	// The one that comes back ends what is still at work there.
	n.do("docker compose start " + bots[has])
	n.await("what was at work to be ended", func() bool { return len(n.sandboxes()) == 0 })
	n.await("both bots to be there again", func() bool {
		return len(slices.DeleteFunc(nodes(bots[1-has]), func(node serverNode) bool { return node.State != "working" })) == 2
	})
	// None works on a database that another one cannot see.
	if out := n.do("docker compose logs --no-color bot-1 bot-2"); strings.Contains(out, "| bot: ") {
		t.Errorf("the log:\n%s", out)
	}
}
