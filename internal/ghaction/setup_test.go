package ghaction

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// releases is a server that has one release, as .goreleaser.yaml makes it.
type releases struct {
	*httptest.Server

	asked atomic.Int32
}

const released = "1.2.3-rc.1"

// archive holds a program that tells its version.
func archive(t *testing.T) []byte {
	t.Helper()
	program := []byte("#!/bin/sh\necho \"bot v" + released + "\"\n")
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	files := tar.NewWriter(zipped)
	for name, content := range map[string][]byte{"README.md": []byte("# x\n"), "bot": program} {
		if err := files.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(files.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func newReleases(t *testing.T, archive []byte, sum string) *releases {
	t.Helper()
	r := &releases{}
	name := fmt.Sprintf("ralph-bot_%s_%s_%s.tar.gz", released, runtime.GOOS, runtime.GOARCH)
	mux := http.NewServeMux()
	serve := func(path string, content []byte) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			r.asked.Add(1)
			_, _ = w.Write(content) // a client that goes away is no concern
		})
	}
	serve("/v"+released+"/"+name, archive)
	serve("/v"+released+"/checksums.txt", []byte(strings.Repeat("0", 64)+"  another.tar.gz\n"+sum+"  "+name+"\n"))
	r.Server = httptest.NewTLSServer(mux)
	t.Cleanup(r.Close)
	return r
}

// setup runs the first step of the action and gives its exit code, what it said,
// and its outputs.
func (r *releases) setup(t *testing.T, dir string, env map[string]string) (code int, said, outputs string) {
	t.Helper()
	action, err := filepath.Abs(top)
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(dir, "ca.pem")
	write(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})))
	out := filepath.Join(dir, "output")
	write(t, out, "")
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(action, "scripts", "action-setup.sh"))
	cmd.Env = []string{
		"PATH=" + filepath.Join(dir, "bin") + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "CURL_CA_BUNDLE=" + ca, "ACTION_PATH=" + action, "RUNNER_TEMP=" + dir, "RUNNER_TOOL_CACHE=" + filepath.Join(dir, "tools"),
		"GITHUB_OUTPUT=" + out, "RALPH_RELEASES=" + r.URL, "RALPH_INPUT_VERSION=v" + released, "RALPH_INPUT_MODE=finish",
	}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	all, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(all), string(b)
}

// gh puts a program into the PATH that says whether an attestation is good.
func gh(t *testing.T, dir string, good bool) {
	t.Helper()
	verdict := "exit 0"
	if !good {
		verdict = "echo 'no attestations found' >&2; exit 1"
	}
	program := filepath.Join(dir, "bin", "gh")
	write(t, program, "#!/bin/sh\necho \"$@\" >"+dir+"/gh.args\n"+verdict+"\n")
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestDownloadIsVerified(t *testing.T) {
	t.Parallel()
	good := archive(t)
	sum := fmt.Sprintf("%x", sha256.Sum256(good))
	for name, c := range map[string]struct {
		archive []byte
		sum     string
		gh      string // "", good or bad
		env     map[string]string
		code    int
		says    string
	}{
		"as released":          {good, sum, "good", nil, 0, "bot v" + released},
		"checksum alone":       {good, sum, "", map[string]string{"RALPH_INPUT_VERIFY": "checksum"}, 0, "bot v" + released},
		"changed":              {append([]byte("x"), good...), sum, "good", nil, 2, "the checksum of the download is wrong"},
		"changed, no gh":       {append([]byte("x"), good...), sum, "", map[string]string{"RALPH_INPUT_VERIFY": "checksum"}, 2, "the checksum of the download is wrong"},
		"cut off":              {good[:len(good)/2], sum, "good", nil, 2, "the checksum of the download is wrong"},
		"no checksum":          {good, "", "good", nil, 2, "the checksum of the download is wrong"},
		"built by others":      {good, sum, "bad", nil, 2, "no valid attestation"},
		"nobody to ask":        {good, sum, "", nil, 2, "gh, which is not installed"},
		"no such release":      {good, sum, "good", map[string]string{"RALPH_INPUT_VERSION": "9.9.9"}, 2, "cannot be downloaded"},
		"version with a path":  {good, sum, "good", map[string]string{"RALPH_INPUT_VERSION": "1.2.3/../../x"}, 2, "neither a version"},
		"version with a shell": {good, sum, "good", map[string]string{"RALPH_INPUT_VERSION": "$(touch pwned)"}, 2, "neither a version"},
		"another way":          {good, sum, "good", map[string]string{"RALPH_INPUT_VERIFY": "none"}, 2, "neither attestation nor checksum"},
		"without TLS":          {good, sum, "good", map[string]string{"RALPH_RELEASES": "http://127.0.0.1:1"}, 2, "cannot be downloaded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if c.gh != "" {
				gh(t, dir, c.gh == "good")
			} else if _, err := exec.LookPath("gh"); err == nil {
				c.env = map[string]string{"PATH": pathWithout(t, dir, "gh"), "RALPH_INPUT_VERIFY": c.env["RALPH_INPUT_VERIFY"]}
			}
			r := newReleases(t, c.archive, c.sum)
			code, said, outputs := r.setup(t, dir, c.env)
			if code != c.code || !strings.Contains(said, c.says) {
				t.Fatalf("exit code %d, want %d and %q:\n%s", code, c.code, c.says, said)
			}
			kept, err := filepath.Glob(filepath.Join(dir, "tools", "ralph-bot", "*", "*", "bot"))
			if err != nil || (len(kept) == 1) != (code == 0) {
				t.Errorf("kept are %q, %v", kept, err)
			}
			if code != 0 {
				if outputs != "" {
					t.Errorf("outputs of a step that failed: %s", outputs)
				}
				return
			}
			if want := "bot=" + kept[0] + "\n"; outputs != want {
				t.Errorf("outputs %q, want %q", outputs, want)
			}
			if args, err := os.ReadFile(filepath.Join(dir, "gh.args")); c.gh == "good" && (err != nil || !strings.HasPrefix(string(args), "attestation verify ") || !strings.HasSuffix(string(args), " --repo org/ralph-action\n")) {
				t.Errorf("gh was asked %q, %v", args, err)
			}
			// The next job of the runner finds it.
			asked := r.asked.Load()
			if code, said, _ := r.setup(t, dir, c.env); code != 0 || r.asked.Load() != asked {
				t.Errorf("a second time: exit code %d, %d requests\n%s", code, r.asked.Load()-asked, said)
			}
		})
	}
}

// pathWithout is a PATH on which a program is not.
func pathWithout(t *testing.T, dir, program string) string {
	t.Helper()
	bin := filepath.Join(dir, "usr")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"awk", "bash", "cat", "cut", "curl", "gzip", "mkdir", "mktemp", "mv", "rm", "sed", "sha256sum", "sh", "tar", "tr", "uname"} {
		if path, err := exec.LookPath(name); err == nil && name != program {
			if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return bin
}

// One file says which agents there are, and what is tested is what is installed.
func TestAgentVersionsAgree(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(top + "images/agent/agents.txt")
	if err != nil {
		t.Fatal(err)
	}
	tested, err := os.ReadFile(top + "test/npm/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var npm struct {
		DevDependencies, OptionalDependencies map[string]string
	}
	if err := json.Unmarshal(tested, &npm); err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 3 {
			t.Fatalf("%q is not a command, a package and a version", line)
		}
		n++
		// opencode's tests take its program without the package around it.
		got := cmp.Or(npm.DevDependencies[fields[1]], npm.OptionalDependencies[strings.Replace(fields[1], "-ai", "-linux-x64", 1)])
		if got != fields[2] {
			t.Errorf("%s is installed in version %s and tested in %q", fields[1], fields[2], got)
		}
	}
	if n < 5 {
		t.Errorf("%d agents", n)
	}
	for _, file := range []string{"scripts/action-setup.sh", "images/agent/Dockerfile"} {
		source, err := os.ReadFile(top + file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(source), "agents.txt") || strings.Contains(string(source), "claude-code@2") {
			t.Errorf("%s has versions of its own", file)
		}
	}
}
