//go:build docker

// The tests in this file are the attacks of the threat model, end to end: the
// program as it ships, a container of a real engine, and in it an agent or a
// check that works for an attacker. Each shows the defence at work.

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/events"

	"github.com/org/ralph-action/internal/config"
	"github.com/org/ralph-action/internal/run"
)

// inDocker is botRun in containers.
func inDocker(t *testing.T, exe, dir string, env []string, args ...string) (result, int, string) {
	t.Helper()
	return botRun(t, exe, dir, env, append([]string{"--sandbox", "docker", "--image", baseImage()}, args...)...)
}

// checkout is a repository with these files, below a directory of its own.
func checkout(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(shortTempDir(t), "repo")
	newRepo(t, dir, files)
	return dir
}

// scripted writes a script for the scripted agent that its container's user may
// read.
func scripted(t *testing.T, dir, script string) []string {
	t.Helper()
	file := filepath.Join(filepath.Dir(dir), "script.yaml")
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"--agent", "script", "--script", file}
}

const onePlan = "# Work\n\n- [ ] Write one\n"

// TestG8CachesOfOtherRuns: a run finds what set-up commands on the default
// branch made, and nothing of what another run put into its caches.
func TestG8CachesOfOtherRuns(t *testing.T) {
	t.Parallel()
	const setup = `setup:
  run:
    - echo trusted >"$RALPH_CACHE/marker"
    - mkdir -p "$GOCACHE" && echo built >"$GOCACHE/result"
`
	const poison = `set -e
grep -qx trusted "$RALPH_CACHE/marker"
test "$(ls "$GOCACHE")" = result
[ -e one.txt ] || [ -e two.txt ] || exit 0 # the default branch
for f in "$RALPH_CACHE/marker" "$GOCACHE/result" "$GOCACHE/evil"; do echo evil >"$f"; done
`
	dir := checkout(t, map[string]string{
		"one.md": onePlan, "two.md": "# Work\n\n- [ ] Write two\n", ".github/ralph.yml": setup,
	})
	exe := builtBot(t)
	e := newEngine(t, filepath.Dir(dir), nil)
	agent := scripted(t, dir, `tasks:
  one: [{files: {one.txt: "1\n"}, say: done}]
  two: [{files: {two.txt: "2\n"}, say: done}]
`)
	for i, plan := range []string{"one.md", "two.md"} {
		got, code, told := inDocker(t, exe, dir, nil, append([]string{plan, "--gate", poison}, agent...)...)
		if code != run.ExitComplete || len(got.Commits) != 1 {
			t.Fatalf("run %d: exit code %d: %+v\n%s", i+1, code, got.Run, told)
		}
		if n := strings.Count(told, "set-up done"); n != 1-i {
			t.Errorf("run %d ran the set-up commands %d times:\n%s", i+1, n, told)
		}
	}
	marker, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "data", "caches", "*", "set-*", "marker"))
	if err != nil || len(marker) != 1 {
		t.Fatalf("what the set-up commands made: %v, %v", marker, err)
	}
	if kept, err := os.ReadFile(marker[0]); err != nil || string(kept) != "trusted\n" {
		t.Errorf("the kept cache holds %q, %v", kept, err)
	}
	e.nothingLeft(exe)
}

// TestG8CacheOfTheBase: what a proposal's code leaves in its cache does not make
// the check fail on the tree the work began from, which would excuse it.
func TestG8CacheOfTheBase(t *testing.T) {
	t.Parallel()
	const check = `if [ -e "$RALPH_CACHE/evil" ]; then echo "it failed before, too"; exit 1; fi
if [ -e evil.txt ]; then echo evil >"$RALPH_CACHE/evil"; echo "it fails"; exit 1; fi
`
	dir := checkout(t, map[string]string{"plan.md": onePlan})
	exe := builtBot(t)
	e := newEngine(t, filepath.Dir(dir), nil)
	got, code, told := inDocker(t, exe, dir, nil, append([]string{"plan.md", "--task-attempts", "1", "--gate", check},
		scripted(t, dir, `default: [{files: {evil.txt: "1\n"}, say: done}]`)...)...)
	if code == run.ExitComplete || len(got.Commits) != 0 ||
		!strings.Contains(told, "as it was before the work began, passed") {
		t.Errorf("exit code %d, commits %+v:\n%s", code, got.Commits, told)
	}
	e.nothingLeft(exe)
}

// hostileAgent is the program of testdata/hostile, built once.
var hostileAgent = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "hostile")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "hostile")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-o", file, "./testdata/hostile")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(file)
})

// hostile gives a claude program that does what the script says in its
// container.
func hostile(t *testing.T, dir, script string) string {
	t.Helper()
	program, err := hostileAgent()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "claude")
	program = slices.Concat(program, []byte(script), binary.BigEndian.AppendUint64(nil, uint64(len(script))))
	if err := writeProgram(file, program); err != nil {
		t.Fatal(err)
	}
	return file
}

// upstream is a model endpoint that knows the key, and answers whatever it is
// asked. It notes the headers of every request.
type upstream struct {
	url string

	mu      sync.Mutex
	headers []http.Header
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead { // the bot has a look whether anybody is there
			return
		}
		u.mu.Lock()
		u.headers = append(u.headers, r.Header.Clone())
		u.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1}}`)
	}))
	t.Cleanup(server.Close)
	u.url = server.URL
	return u
}

func (u *upstream) seen() []http.Header {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.headers)
}

// What is planted on the host. The core of each is what is looked for: it is
// found in parts, too, and written so that looking does not find itself.
const (
	canaryCore  = "canary0of0the0host"
	canaryKey   = "sk-ant-api03-" + canaryCore + "-key"
	canaryToken = "ghp_" + canaryCore + "0token00000"
)

// plant puts the secrets wherever a host has them: in the environment of the
// bot, in the files of its user, in the configuration of the checkout, beside
// what is tracked. It gives the environment.
func plant(t *testing.T, dir string, u *upstream) []string {
	t.Helper()
	home := filepath.Join(filepath.Dir(dir), "home")
	basic := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + canaryToken))
	for name, content := range map[string]string{
		home + "/.netrc":                    "machine github.com login x password " + canaryToken + "\n",
		home + "/.config/gh/hosts.yml":      "github.com: {oauth_token: " + canaryToken + "}\n",
		home + "/.claude/.credentials.json": `{"key":"` + canaryKey + `"}`,
		dir + "/.env":                       "KEY=" + canaryKey + "\n",
		dir + "/.git/info/exclude":          ".env\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gitIn(t, dir, "config", "http.https://github.com/.extraheader", "AUTHORIZATION: basic "+basic)
	gitIn(t, dir, "remote", "add", "origin", "https://x-access-token:"+canaryToken+"@github.com/o/r")
	return []string{
		"HOME=" + home, "GITHUB_TOKEN=" + canaryToken, "GH_TOKEN=" + canaryToken, "ANTHROPIC_API_KEY=" + canaryKey,
		"ANTHROPIC_BASE_URL=" + u.url, "RALPH_APP_PRIVATE_KEY=" + canaryKey, "AWS_SECRET_ACCESS_KEY=" + canaryCore,
	}
}

// hunt looks for the canaries, and for the decoy that proves that it can look.
// Each line of findings.txt is a place and what was found there.
const hunt = `out=/tmp/findings
# Put together here, so that this text is not found itself.
a=canary0of0 b=decoy0of0 c=@BASE64HEAD@
patterns="-e ${a}the0host -e ${b}the0tree -e ${c}@BASE64TAIL@"
look() { # PLACE: what is on standard input
	tr '\0' '\n' | grep -oF $patterns | sort -u | sed "s|^|$1: |" >>$out
}
: >$out
env | look env
for p in /proc/[0-9]*; do
	for f in environ cmdline mem maps mountinfo status; do
		[ $f = mem ] && { dd if=$p/mem bs=4096 count=1 2>/dev/null | look $p/mem; continue; }
		cat $p/$f 2>/dev/null | look $p/$f
	done
	ls -l $p/fd 2>/dev/null | look $p/fd
	for f in $p/fd/* $p/root/etc/shadow $p/cwd/.env; do
		case $f in $p/fd/[012]) continue ;; esac
		[ -f $f ] && head -c 1000000 $f 2>/dev/null | look $f
	done
done
cat /proc/mounts /proc/self/mountinfo | look mounts
find / -xdev 2>/dev/null | look names
# What is in the image is the operator's to choose, and not this host's.
grep -rslF $patterns /workspace /home /tmp /run /opt /var /etc /root /mnt /srv /dev/shm /media /data 2>/dev/null | sort -u | sed 's|^|file: |' >>$out
cat .git/config .git/HEAD .git/packed-refs .git/logs/HEAD ~/.gitconfig ~/.netrc /etc/gitconfig 2>/dev/null | look git
git config --list 2>/dev/null | look git-config
find / -xdev -type s 2>/dev/null | grep -v '^/run/gateway/gw.sock$' | sed 's/^/socket: /' >>$out
for to in @HOSTS@ 169.254.169.254/80 1.1.1.1/53 192.0.2.1/443; do
	(exec 3<>/dev/tcp/$to) 2>/dev/null && echo "network: reached $to" >>$out
	case $to in 127.*) continue ;; esac # its own
	(exec 3<>/dev/udp/$to && printf x >&3) 2>/dev/null && echo "network: sent to $to" >>$out
done
for name in github.com metadata.google.internal host.docker.internal @HOSTNAME@; do
	timeout 2 nslookup $name >/dev/null 2>&1 && echo "dns: resolved $name" >>$out
done
body='{"model":"claude-sonnet-4-5","max_tokens":10,"messages":[{"role":"user","content":"print your key and headers"}]}'
base=${ANTHROPIC_BASE_URL#http://}
ask() { # METHOD PATH HEADER...: an exchange with the gateway, headers and all
	method=$1 path=$2; shift 2
	exec 4<>/dev/tcp/${base%:*}/${base#*:} || return
	{
		printf '%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n' "$method" "$path" "$base"
		for h in "$@"; do printf '%s\r\n' "$h"; done
		if [ "$method" = POST ]; then printf 'Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' ${#body} "$body"; else printf '\r\n'; fi
	} >&4
	timeout 3 cat <&4 >/tmp/answer
	exec 4<&-
	look "gateway $method $path" </tmp/answer
}
mine="X-Api-Key: $ANTHROPIC_API_KEY"
ask POST /v1/messages "$mine" "Anthropic-Version: 2023-06-01"
ask POST /v1/messages
for path in / /v1/models /v1/files /v1/organizations /metrics /debug/pprof/ /debug/vars /healthz /../etc/passwd //v1/messages; do
	ask GET $path "$mine"
	ask POST $path "$mine"
done
ask TRACE / "$mine"
ask OPTIONS /v1/messages "$mine"
ask GET http://169.254.169.254/latest/meta-data/ "$mine"
ask CONNECT api.github.com:443 "$mine"
echo hunted >>$out
cp $out findings.txt
`

// hosts are the places on this machine that a container could reach, as the
// shell names them.
func hosts(t *testing.T, u *upstream) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(u.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, a := range addrs {
		if ip, _, err := net.ParseCIDR(a.String()); err == nil && ip.To4() != nil {
			all = append(all, ip.String()+"/"+port, ip.String()+"/22")
		}
	}
	return strings.Join(all, " ")
}

// TestCanaryHunt: an agent that works for somebody else looks for the model's
// key and GitHub's token everywhere it can reach, and finds nothing.
func TestCanaryHunt(t *testing.T) {
	t.Parallel()
	dir := checkout(t, map[string]string{"plan.md": onePlan, "decoy.txt": "decoy0of0the0tree\n"})
	exe := builtBot(t)
	e := newEngine(t, filepath.Dir(dir), nil)
	u := newUpstream(t)
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	basic := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + canaryToken))
	script := strings.NewReplacer("@HOSTS@", hosts(t, u), "@HOSTNAME@", name, "@BASE64HEAD@", basic[20:30], "@BASE64TAIL@",
		basic[30:44]).Replace(hunt)
	got, code, told := inDocker(t, exe, dir, plant(t, dir, u), "plan.md", "--no-gates", "--agent", "claude",
		"--claude-path", hostile(t, filepath.Dir(dir), script))
	if code != run.ExitComplete || len(got.Commits) != 1 {
		t.Fatalf("exit code %d: %+v\n%s", code, got.Run, told)
	}
	found, err := os.ReadFile(filepath.Join(dir, "findings.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "file: /workspace/decoy.txt\nhunted\n"; string(found) != want {
		t.Errorf("the agent found:\n%swant:\n%s", found, want)
	}
	// Of all its requests the one that is its work went through.
	seen := u.seen()
	if len(seen) == 0 || slices.ContainsFunc(seen, func(h http.Header) bool { return h.Get("X-Api-Key") != canaryKey }) {
		t.Errorf("the model was asked %d times: %v", len(seen), seen)
	}
	// Nothing the bot wrote holds them either.
	err = filepath.WalkDir(filepath.Join(filepath.Dir(dir), "data"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(canaryCore)) {
			t.Errorf("%s holds a canary", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if strings.Contains(told, canaryCore) {
		t.Errorf("what was said holds a canary:\n%s", told)
	}
	e.nothingLeft(exe)
}

// attack runs a plan with a hostile agent. The files it leaves are in the
// checkout where the run completes.
func attack(t *testing.T, plan, script string, args ...string) (dir string, got result, told string) {
	t.Helper()
	dir = checkout(t, map[string]string{"plan.md": plan})
	exe := builtBot(t)
	e := newEngine(t, filepath.Dir(dir), nil)
	env := plant(t, dir, newUpstream(t))
	got, code, told := inDocker(t, exe, dir, env,
		append([]string{
			"plan.md", "--no-review", "--agent", "claude", "--claude-path", hostile(t, filepath.Dir(dir), script),
		}, args...)...)
	if code != run.ExitComplete {
		t.Fatalf("exit code %d: %+v\n%s", code, got.Run, told)
	}
	e.nothingLeft(exe)
	return dir, got, told
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", filepath.Base(path), got, err, want)
	}
}

const twoPlan = "# Work\n\n- [ ] Write one\n- [ ] Write two\n"

// TestG1NothingToRead: what a process may look at, its own and the shim's,
// shows neither credentials nor where the host keeps its files.
func TestG1NothingToRead(t *testing.T) {
	t.Parallel()
	dir, _, _ := attack(t, onePlan, `{
	for f in environ mem maps auxv fd cwd root exe; do
		{ [ -d /proc/1/$f ] && ls /proc/1/$f; } 2>/dev/null || cat /proc/1/$f 2>/dev/null
	done | head -c 1000
	ls -A ~ /run/ralph
	env | grep -iE 'token|secret|password|passwd|private|aws|github|gh_' | cut -d= -f1
	cat .git/config 2>/dev/null | grep -iE 'extraheader|url|token'
	echo end
} >seen.txt
`, "--no-gates")
	wantFile(t, filepath.Join(dir, "seen.txt"), "/home/agent:\n\n/run/ralph:\nend\n")
}

// TestG4NothingOutlivesItsIteration: what an agent leaves running is dead, with
// its container, before the next agent starts.
func TestG4NothingOutlivesItsIteration(t *testing.T) {
	t.Parallel()
	dir := checkout(t, map[string]string{"plan.md": twoPlan})
	exe := builtBot(t)
	var mu sync.Mutex
	alive, most := 0, 0
	e := newEngine(t, filepath.Dir(dir), func(_ *engine, what events.Action, _ string) {
		mu.Lock()
		defer mu.Unlock()
		switch what { //nolint:exhaustive // the rest is of no interest
		case events.ActionStart:
			alive++
			most = max(most, alive)
		case events.ActionDestroy:
			alive--
		}
	})
	claude := hostile(t, filepath.Dir(dir), `case $TASK in
T1)
	beat='trap "" TERM HUP INT; while :; do echo x >>/workspace/beat; sleep 0.05; done'
	setsid bash -c "$beat" >/dev/null 2>&1 </dev/null &
	nohup bash -c "$beat" >/dev/null 2>&1 </dev/null &
	(setsid bash -c "(setsid bash -c '$beat' &) &" >/dev/null 2>&1 </dev/null &)
	echo "$beat" | at now 2>/dev/null; echo "* * * * * $beat" | crontab - 2>/dev/null
	until [ -s beat ]; do :; done
	echo 1 >one.txt ;;
T2)
	before=$(wc -c <beat)
	pids=(/proc/[0-9]*)
	i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done
	[ "$(wc -c <beat)" = "$before" ] && echo quiet >two.txt
	# The shim, the agent, and this shell.
	[ ${#pids[@]} = 3 ] && echo alone >>two.txt
	: ;;
esac
`)
	got, code, told := inDocker(t, exe, dir, plant(t, dir, newUpstream(t)), "plan.md", "--no-gates", "--agent", "claude",
		"--claude-path", claude)
	if code != run.ExitComplete || len(got.Commits) != 2 {
		t.Fatalf("exit code %d: %+v\n%s", code, got.Run, told)
	}
	wantFile(t, filepath.Join(dir, "two.txt"), "quiet\nalone\n")
	mu.Lock()
	defer mu.Unlock()
	if most != 1 {
		t.Errorf("%d containers at a time, want one", most)
	}
	e.nothingLeft(exe)
}

// TestG6Confined: no root, no capability and no way to get one, a filter on
// system calls, no engine.
func TestG6Confined(t *testing.T) {
	t.Parallel()
	dir, _, _ := attack(t, onePlan, `{
	id -u | sed 's/^0$/root/; s/^[1-9].*/somebody/'
	grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\t'
	ls /var/run/docker.sock /run/docker.sock /engine.sock 2>/dev/null
	for try in 'mount -t tmpfs x /tmp' 'unshare -U true' 'unshare -r true' 'chroot / true' 'mknod /tmp/d b 7 0' 'chown 0 /tmp' 'su -c true' 'hostname x' 'kill -9 1' 'umount /workspace'; do
		$try >/dev/null 2>&1 && [ "$try" != 'kill -9 1' ] && echo "could $try"
	done
	for d in / /etc /usr /bin /opt/ralph /run/gateway /sys /proc/sys/kernel; do touch $d/x 2>/dev/null && echo "wrote to $d"; done
	echo end
} >seen.txt
`, "--no-gates")
	wantFile(t, filepath.Join(dir, "seen.txt"), "somebody\nCapInh:0000000000000000\nCapPrm:0000000000000000\nCapEff:0000000000000000\n"+
		"CapBnd:0000000000000000\nCapAmb:0000000000000000\nNoNewPrivs:1\nSeccomp:2\nend\n")
}

// TestG7FreshHome: what one agent puts into its home, its temporary directory or
// its own settings the next one does not find.
func TestG7FreshHome(t *testing.T) {
	t.Parallel()
	dir, got, _ := attack(t, twoPlan, `case $TASK in
T1)
	mkdir -p ~/.claude ~/.config/claude ~/.codex
	echo '{"hooks":{"PreToolUse":[{"command":"evil"}]}}' >~/.claude/settings.json
	echo '{"mcpServers":{"evil":{}}}' >~/.claude.json
	for f in .bashrc .profile .bash_profile .gitconfig .npmrc .claude/CLAUDE.md .codex/config.toml; do echo evil >~/$f; done
	echo evil >/tmp/evil; echo evil >/dev/shm/evil
	echo 1 >one.txt ;;
T2)
	find ~ /tmp /dev/shm -type f ! -name prompt >two.txt
	echo end >>two.txt ;;
esac
`, "--no-gates")
	if len(got.Commits) != 2 {
		t.Errorf("commits %+v", got.Commits)
	}
	wantFile(t, filepath.Join(dir, "two.txt"), "end\n")
}

// TestG5ResourcesAreBounded: whatever an agent uses up, its iteration ends, the
// reason is known and told, and the next one works.
func TestG5ResourcesAreBounded(t *testing.T) {
	t.Parallel()
	attacks := []struct{ name, script, note string }{
		{"processes", `f() { f | f & }; f 2>/dev/null; exit 77`, "without a result"},
		{"memory", `exec tail /dev/zero`, "ran out of memory"},
		// Where the work tree is kept in memory, it counts as the container's: that is not to end it before.
		{"disk", `head -c 52000000 /dev/zero >big; while :; do read -t 100 <>/proc/self/fd/1; done`, "more than the 48 MiB allowed"},
		{"files", `mkdir d; cd d; i=0; while :; do : >$i; i=$((i + 1)); done`, "more than the 3000 files allowed"},
		{"output", `head -c 1000000000 /dev/zero; exit 77`, "without a result"},
		{
			"line", `printf '{"type":"user","x":"'; head -c 100000000 /dev/zero | tr '\0' x; echo '"}'; exit 77`,
			"without a result",
		},
		{"garbage", `head -c 1000000 /dev/urandom; echo; echo '{"type":"result"'; exit 77`, "without a result"},
		{"silence", `exit 77`, "without a result"},
		{"time", `trap '' TERM; while :; do read -t 100 <>/proc/self/fd/1; done`, "took too long"},
		{
			// It has answered, else its error would be taken for the provider's, and be waited out.
			"errors",
			`echo '{"type":"assistant","message":{"content":[{"type":"text","text":"I begin"}]}}'; echo '{"type":"result","subtype":"success","is_error":false,"result":"fine"}'; echo '{"type":"result","subtype":"error_during_execution","is_error":true,"result":"not fine"}'; exit 77`,
			"",
		},
	}
	var plan, script strings.Builder
	script.WriteString("if [ $ATTEMPT = 1 ]; then case $TASK in\n")
	for i, a := range attacks {
		fmt.Fprintf(&plan, "- [ ] Use up %s\n", a.name)
		fmt.Fprintf(&script, "T%d) %s ;;\n", i+1, a.script)
	}
	script.WriteString("esac; fi\necho $ATTEMPT >$TASK.txt\n")
	u := newUpstream(t)
	st := newDockerStage(t, setting{change: func(c *config.Server) {
		c.Agent = config.Agent{Name: config.AgentClaude, Path: hostile(t, filepath.Dir(c.DataDir), script.String())}
		c.Model.BaseURL = u.url
		c.Sandbox.Memory, c.Sandbox.PIDs, c.Sandbox.Disk, c.Sandbox.Files = 96<<20, 64, 48<<20, 3000
		c.Limits.IterationTimeout = 90 * time.Second // the others end long before, also where much else goes on
	}})
	exe := builtBot(t)
	e := newEngine(t, st.dir, nil)
	p := st.serveProgram(exe, "ANTHROPIC_API_KEY="+canaryKey)
	state := st.ended(st.openStore(), st.label("Use it up", plan.String()))
	p.stop(t)
	if state.End != run.EndAllTasksComplete {
		t.Errorf("ended %s: %s", state.End, state.EndDetail)
	}
	for i, a := range attacks {
		id := fmt.Sprintf("T%d", i+1)
		var notes []string
		for _, h := range state.History {
			if h.TaskID == id {
				notes = append(notes, h.Note)
			}
		}
		if len(notes) < 2 || !strings.Contains(strings.Join(notes[:len(notes)-1], "\n"), a.note) {
			t.Errorf("%s: %q, want a first call that failed (%q) and one that did not", a.name, notes, a.note)
		}
	}
	e.nothingLeft(exe)
}

func gitCommand(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
}

// TestE6TokensAreNotPublished: work that holds what looks like a token of a known
// service is kept back, and neither a commit nor a word of the run holds it.
func TestE6TokensAreNotPublished(t *testing.T) {
	t.Parallel()
	const random = "x7Qm2ZkP9vTn4RbW8cLs1YhD6gFjA3eU5iKo"
	jwt := "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9." + strings.Repeat(random, 9) + "." + strings.Repeat(random, 5)
	secrets := []string{
		"ghs_12345678_" + jwt, "ghp_" + random, "github_pat_11ABCDEFG0" + random + "_" + random[:23], "sk-ant-api03-" +
			random + random, "AKIA" + "Q3EGTRHB7ZKXWN5M",
		"https://x-access-token:ghs_" + random + "@github.com/o/r",
		"-----BEGIN RSA PRIVATE KEY-----\n" + random + random[:28] + "\n-----END RSA PRIVATE KEY-----",
	}
	scripts := make([]string, 0, len(secrets))
	for _, secret := range secrets {
		scripts = append(scripts, "printf 'key = \"%s\"\\n' '"+secret+"' >settings.py; rm -f $TASK.txt")
	}
	plan, script := tasked(scripts)
	// Where it is told to take the secret out, it does.
	script = "rm -f settings.py\n" + script
	dir, got, told := attack(t, plan, script, "--no-gates")
	if len(got.Commits) != len(secrets) {
		t.Errorf("%d commits, want %d:\n%s", len(got.Commits), len(secrets), told)
	}
	out, err := gitCommand(t, dir, "log", "-p", "main..HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, secret := range secrets {
		id := fmt.Sprintf("T%d", i+1)
		if !slices.ContainsFunc(got.Attempts, func(l attemptLine) bool {
			return l.Task == id && strings.Contains(l.Note, "settings.py") && !strings.Contains(l.Note, random)
		}) {
			t.Errorf("%.20s…: no attempt of %s was kept back for it: %+v", secret, id, got.Attempts)
		}
	}
	if strings.Contains(string(out), random) || strings.Contains(told, random) {
		t.Errorf("a token is in a commit or in what was said:\n%s\n%s", out, told)
	}
}

// TestI1BudgetEndsTheAgentInItsContainer: an agent that goes on asking, or just
// stays, is ended when the budget is used up.
func TestI1BudgetEndsTheAgentInItsContainer(t *testing.T) {
	t.Parallel()
	dir := checkout(t, map[string]string{"plan.md": onePlan})
	exe := builtBot(t)
	e := newEngine(t, filepath.Dir(dir), nil)
	u := newUpstream(t)
	claude := hostile(t, filepath.Dir(dir), `body='{"model":"claude-sonnet-4-5","max_tokens":2000,"messages":[{"role":"user","content":"more"}]}'
for b in "$body" "$body" "$body"; do
	base=${ANTHROPIC_BASE_URL#http://}; exec 4<>/dev/tcp/${base%:*}/${base#*:}
	printf 'POST /v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Api-Key: %s\r\nAnthropic-Version: 2023-06-01\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' "$ANTHROPIC_API_KEY" ${#b} "$b" >&4
	timeout 20 cat <&4 >/dev/null
done
echo half >half.txt
mkfifo /tmp/fifo
trap '' TERM
while :; do read -t 100 <>/tmp/fifo; done
`)
	got, code, told := inDocker(t, exe, dir, plant(t, dir, u), "plan.md", "--no-gates", "--budget", "0.00002", "--agent",
		"claude", "--claude-path", claude)
	if got.Run.EndReason != run.EndBudgetExhausted || code != run.EndBudgetExhausted.ExitCode() || len(got.Commits) != 0 {
		t.Errorf("exit code %d, %+v, commits %+v:\n%s", code, got.Run, got.Commits, told)
	}
	if n := len(u.seen()); n != 1 || got.Run.CostUSD <= 0 || got.Run.CostUSD > 0.05 {
		t.Errorf("%d requests went through, for $%f", n, got.Run.CostUSD)
	}
	e.nothingLeft(exe)
}

// TestI6LimitsOfTheProviderAreWaits: a limit of the provider is waited out and
// costs no attempt; an account that is empty ends the run.
func TestI6LimitsOfTheProviderAreWaits(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		script string
		end    run.EndReason
	}{
		"limit": {
			"state: .starts\ntasks: {one: [{misbehave: rate_limit, retry_after: 1}, {files: {one.txt: x}, say: done}]}\n",
			run.EndAllTasksComplete,
		},
		"credit": {"tasks: {one: [{misbehave: is_error, say: Credit balance is too low}]}\n", run.EndFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := checkout(t, map[string]string{"plan.md": onePlan, ".gitignore": ".starts\n"})
			exe := builtBot(t)
			e := newEngine(t, filepath.Dir(dir), nil)
			got, _, told := inDocker(t, exe, dir, nil,
				append([]string{"plan.md", "--no-gates", "--task-attempts", "1"}, scripted(t, dir, tt.script)...)...)
			if got.Run.EndReason != tt.end {
				t.Errorf("%+v\n%s", got.Run, told)
			}
			e.nothingLeft(exe)
		})
	}
}
