package test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// setUp is the first step of the Action on a runner of which nothing is there but
// what the test puts there.
type setUp struct {
	t *testing.T
	// dir holds the runner's directories, and bin is all that it has on its PATH.
	dir, bin string
	env      map[string]string
}

// released is the one release that there is.
const released = "1.2.3-rc.1"

// needed are the programs that every runner has.
var needed = []string{
	"awk", "bash", "cat", "chmod", "cp", "curl", "cut", "find", "gzip", "head", "mkdir", "mktemp", "mv", "rm", "sh", "sha256sum",
	"tar", "touch", "tr", "uname",
}

func newSetUp(t *testing.T) *setUp {
	t.Helper()
	s := &setUp{t: t, dir: t.TempDir()}
	s.bin = filepath.Join(s.dir, "bin")
	action := filepath.Join(s.dir, "action")
	for _, d := range []string{s.bin, filepath.Join(action, "images", "agent"), s.path("temp"), s.path("tools")} {
		if err := os.MkdirAll(d, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range needed {
		program, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(program, filepath.Join(s.bin, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.write(filepath.Join(action, "VERSION"), released+"\n")
	s.write(filepath.Join(action, "images", "agent", "agents.txt"),
		"# name package version\nclaude @anthropic-ai/claude-code 2.1.197\n")
	s.env = map[string]string{
		"PATH": s.bin, "ACTION_PATH": action, "RUNNER_TEMP": s.path("temp"), "RUNNER_TOOL_CACHE": s.path("tools"),
		"GITHUB_OUTPUT": s.path("output"), "RALPH_SANDBOX": "local", "RALPH_AGENT_PROGRAM": "/usr/bin/agent",
	}
	return s
}

func (s *setUp) path(name string) string { return filepath.Join(s.dir, name) }

func (s *setUp) write(file, text string) {
	s.t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// program puts a shell script on the runner, which notes how it was called.
func (s *setUp) program(name, script string) {
	s.t.Helper()
	file := filepath.Join(s.bin, name)
	s.write(file, "#!/bin/sh\necho \"$*\" >>'"+s.path(name+".calls")+"'\n"+script+"\n")
	if err := os.Chmod(file, 0o700); err != nil {
		s.t.Fatal(err)
	}
}

// without takes a program away from the runner.
func (s *setUp) without(name string) {
	s.t.Helper()
	if err := os.Remove(filepath.Join(s.bin, name)); err != nil {
		s.t.Fatal(err)
	}
}

// calls are how a program was called.
func (s *setUp) calls(name string) []string {
	b, err := os.ReadFile(s.path(name + ".calls"))
	if err != nil {
		return nil
	}
	return slices.Collect(strings.Lines(strings.TrimSpace(string(b))))
}

// run does the step, and gives its exit code, what it said and its outputs.
func (s *setUp) run() (code int, said string, outputs map[string]string) {
	s.t.Helper()
	s.write(s.path("output"), "")
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(s.bin, "bash"), "../scripts/action-setup.sh")
	cmd.Env = []string{} // nothing of this machine
	for name, value := range s.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	b, err := os.ReadFile(s.path("output"))
	if err != nil {
		s.t.Fatal(err)
	}
	outputs = map[string]string{}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		outputs[name] = value
	}
	return cmd.ProcessState.ExitCode(), string(out), outputs
}

// fails is run where it has to end with a word about why, and without a program.
func (s *setUp) fails(why string) {
	s.t.Helper()
	code, said, outputs := s.run()
	if code != 2 || !strings.Contains(said, "::error title=Ralph cannot start::") || !strings.Contains(said, why) {
		s.t.Errorf("exit code %d, want 2 and %q:\n%s", code, why, said)
	}
	if len(outputs) > 0 {
		s.t.Errorf("outputs of a step that failed: %v", outputs)
	}
	if found, err := filepath.Glob(s.path("tools/ralph-bot/*/*/*")); err != nil || len(found) > 0 {
		s.t.Errorf("in the runner's cache: %v, %v", found, err)
	}
}

// releases serves the one release that there is, whose program says its version.
type releases struct {
	mu    sync.Mutex
	files map[string][]byte
	asked []string
}

// put replaces a file; nil takes it away.
func (r *releases) put(name string, content []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if content == nil {
		delete(r.files, name)
		return
	}
	r.files[name] = content
}

// alter changes the archives after their sums were taken.
func (r *releases) alter(change func([]byte) []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, b := range r.files {
		if strings.HasSuffix(name, ".tar.gz") {
			r.files[name] = change(slices.Clone(b))
		}
	}
}

// serve publishes the release to the runner; the programs of all platforms are
// the same.
func (s *setUp) serve() *releases {
	s.t.Helper()
	const program = "#!/bin/sh\necho bot v" + released + "\n"
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, f := range []struct {
		name, text string
		mode       int64
	}{{"LICENSE", "free\n", 0o644}, {"ralph-bot", program, 0o755}} {
		err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text)), Typeflag: tar.TypeReg})
		if err == nil {
			_, err = w.Write([]byte(f.text))
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		s.t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		s.t.Fatal(err)
	}
	r := &releases{files: map[string][]byte{}}
	var sums strings.Builder
	fmt.Fprintf(&sums, "%064d  another.tar.gz\n", 0)
	for _, platform := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"} {
		name := "ralph-bot_" + released + "_" + platform + ".tar.gz"
		r.files["/v"+released+"/"+name] = b.Bytes()
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(b.Bytes()), name)
	}
	r.files["/tag/v"+released] = []byte("the page of the release\n")
	r.files["/v"+released+"/checksums.txt"] = []byte(sums.String())
	server := httptest.NewTLSServer(r)
	s.t.Cleanup(server.Close)
	s.env["RALPH_RELEASES"] = server.URL
	s.env["CURL_CA_BUNDLE"] = s.path("ca.pem")
	s.write(s.path("ca.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	return r
}

// ServeHTTP implements http.Handler.
func (r *releases) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, q.URL.Path)
	if q.URL.Path == "/latest" { // as GitHub has it
		http.Redirect(w, q, "/tag/v"+released, http.StatusFound)
		return
	}
	b, ok := r.files[q.URL.Path]
	if !ok {
		http.NotFound(w, q)
		return
	}
	_, _ = w.Write(b) // the client says what is missing
}

func (r *releases) requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

// At a tag or a commit of the action the program is the release that belongs to
// it. It is checked before it is unpacked, and brought once.
func TestActionSetupDownloads(t *testing.T) {
	t.Parallel()
	for _, ref := range []string{"v1", "v1.2", "v1.2.3", "0123456789abcdef0123456789abcdef01234567"} {
		t.Run(ref, func(t *testing.T) {
			t.Parallel()
			s := newSetUp(t)
			r := s.serve()
			s.program("gh", "exit 0")
			s.env["ACTION_REF"] = ref
			code, said, outputs := s.run()
			kept, err := filepath.Glob(s.path("tools/ralph-bot/*/*/*.tar.gz"))
			if code != 0 || !strings.Contains(said, "bot v"+released) || err != nil || len(kept) != 1 || len(outputs) != 1 ||
				outputs["bot"] != s.path("temp/ralph-bin/ralph-bot") {
				t.Fatalf("exit code %d, outputs %v, kept %q, %v:\n%s", code, outputs, kept, err, said)
			}
			if calls := s.calls("gh"); len(calls) != 1 || !strings.HasPrefix(calls[0], "attestation verify ") ||
				!strings.HasSuffix(calls[0], ".tar.gz --repo org/ralph-action") {
				t.Errorf("gh was called so: %q", calls)
			}
			if left, err := filepath.Glob(s.path("temp/*")); err != nil || len(left) != 1 {
				t.Errorf("left behind: %v, %v", left, err)
			}
			before := r.requests()
			if code, said, again := s.run(); code != 0 || again["bot"] != outputs["bot"] || r.requests() != before+1 ||
				len(s.calls("gh")) != 2 {
				t.Errorf("the second time: exit code %d, outputs %v, %d requests more:\n%s", code, again, r.requests()-before, said)
			}
		})
	}
}

// Attack: another job has planted programs in the runner's cache.
func TestActionSetupDistrustsTheToolCache(t *testing.T) {
	t.Parallel()
	s := newSetUp(t)
	r := s.serve()
	s.program("gh", "exit 0")
	s.program("npm", "exit 0")
	s.env["ACTION_REF"] = "v1"
	delete(s.env, "RALPH_AGENT_PROGRAM")
	plant := func(file, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(s.path(file)), 0o750); err != nil {
			t.Fatal(err)
		}
		s.write(s.path(file), text)
		if err := os.Chmod(s.path(file), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const evil = "#!/bin/sh\necho planted\n"
	for _, arch := range []string{"amd64", "arm64"} {
		dir := "tools/ralph-bot/" + released + "/" + arch + "/"
		plant(dir+"ralph-bot", evil)
		plant(dir+"ralph-bot_"+released+"_linux_"+arch+".tar.gz", "x"+string(r.files["/v"+released+"/ralph-bot_"+released+
			"_linux_"+arch+".tar.gz"]))
	}
	plant("tools/ralph-agents/claude/2.1.197/.complete", "")
	plant("tools/ralph-agents/claude/2.1.197/node_modules/.bin/claude", evil)
	code, said, outputs := s.run()
	if code != 0 || !strings.Contains(said, "bot v"+released) || strings.Contains(said, "planted") ||
		strings.HasPrefix(outputs["bot"], s.path("tools")) || strings.HasPrefix(outputs["agent_program"], s.path("tools")) ||
		len(s.calls("npm")) != 1 {
		t.Errorf("exit code %d, outputs %v:\n%s", code, outputs, said)
	}
}

// What is not just what was released is not run.
func TestActionSetupDistrusts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(s *setUp, r *releases)
		why    string
	}{
		"another archive": {
			func(_ *setUp, r *releases) { r.alter(func(b []byte) []byte { return append([]byte("x"), b...) }) },
			"the checksum of the download is wrong",
		},
		"half an archive": {
			func(_ *setUp, r *releases) { r.alter(func(b []byte) []byte { return b[:len(b)/2] }) },
			"the checksum of the download is wrong",
		},
		"no checksum": {
			func(_ *setUp, r *releases) { r.put("/v"+released+"/checksums.txt", []byte("0  other\n")) },
			"the checksum of the download is wrong",
		},
		"no attestation":     {func(s *setUp, _ *releases) { s.program("gh", "exit 1") }, "no valid attestation"},
		"nobody to check it": {func(s *setUp, _ *releases) { s.without("gh") }, "gh, which is not installed"},
		"no such release": {
			func(s *setUp, _ *releases) { s.write(s.path("action/VERSION"), "9.9.9\n") }, "version 9.9.9 cannot be downloaded",
		},
		"a mirror without TLS": {func(s *setUp, r *releases) {
			server := httptest.NewServer(r)
			s.t.Cleanup(server.Close)
			s.env["RALPH_RELEASES"] = server.URL
		}, "cannot be downloaded"},
		"a mirror nobody vouches for": {
			func(s *setUp, _ *releases) { delete(s.env, "CURL_CA_BUNDLE") }, "cannot be downloaded",
		},
		"a branch without Go": {func(s *setUp, _ *releases) { s.env["ACTION_REF"] = "main" }, "Go is not installed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetUp(t)
			s.env["ACTION_REF"] = "v1"
			s.program("gh", "exit 0")
			tt.change(s, s.serve())
			s.fails(tt.why)
		})
	}
}

// The agent comes from npm where it is not there: pinned, once, and without the
// scripts that packages bring.
func TestActionSetupInstallsTheAgent(t *testing.T) {
	t.Parallel()
	s := newSetUp(t)
	s.program("ready", "echo bot 1.2.3")
	s.env["RALPH_BOT"] = filepath.Join(s.bin, "ready")
	delete(s.env, "RALPH_AGENT_PROGRAM")
	if code, said, _ := s.run(); code != 2 || !strings.Contains(said, "npm is missing") {
		t.Errorf("without npm: exit code %d:\n%s", code, said)
	}
	s.program("npm", "exit 1")
	if code, said, _ := s.run(); code != 2 || !strings.Contains(said, "the agent cannot be installed") {
		t.Errorf("npm fails: exit code %d:\n%s", code, said)
	}
	s.program("npm", "exit 0")
	for range 2 {
		code, said, outputs := s.run()
		if code != 0 || !strings.HasPrefix(outputs["agent_program"], s.path("temp/ralph-agents/claude/2.1.197/")) {
			t.Errorf("exit code %d, outputs %v:\n%s", code, outputs, said)
		}
	}
	calls := s.calls("npm")
	if len(calls) != 2 || !strings.Contains(calls[1], "--ignore-scripts") ||
		!strings.HasSuffix(calls[1], " @anthropic-ai/claude-code@2.1.197") {
		t.Errorf("npm was called so: %q", calls)
	}
	s.program("claude", "exit 0")
	if code, said, outputs := s.run(); code != 0 || outputs["agent_program"] != "" {
		t.Errorf("it is there: exit code %d, outputs %v:\n%s", code, outputs, said)
	}
}

// The image of the sandboxes is pulled where the engine lacks it.
func TestActionSetupPullsTheImage(t *testing.T) {
	t.Parallel()
	s := newSetUp(t)
	s.program("ready", "echo bot 1.2.3")
	s.env["RALPH_BOT"], s.env["ACTION_REF"] = filepath.Join(s.bin, "ready"), "v1"
	s.env["RALPH_SANDBOX"] = "docker"
	s.program("docker", `[ "$1" != image ]`)
	if code, said, _ := s.run(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, said)
	}
	if calls := s.calls("docker"); len(calls) != 3 ||
		strings.TrimSpace(calls[2]) != "pull --quiet ghcr.io/org/ralph-agent:"+released {
		t.Errorf("docker was called so: %q", calls)
	}
	s.program("docker", `[ "$1" = version ]`)
	if code, said, _ := s.run(); code != 2 || !strings.Contains(said, "the image cannot be pulled") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
	s.env["RALPH_IMAGE"] = "--privileged x"
	if code, said, _ := s.run(); code != 2 || !strings.Contains(said, "not the reference of an image") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
}
