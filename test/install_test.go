package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// install runs install.sh as its one line does: from standard input.
func (s *setUp) install() (code int, said string) {
	s.t.Helper()
	script, err := os.Open("../install.sh")
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = script.Close() }()
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(s.bin, "sh"))
	cmd.Stdin, cmd.Env = script, []string{}
	for name, value := range s.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// TestInstall: one line brings the latest release, or the one that is named, checks it
// and puts it where the person asks.
func TestInstall(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", released, "v" + released} {
		t.Run("version "+version, func(t *testing.T) {
			t.Parallel()
			s := newSetUp(t)
			s.serve()
			dir := s.path("home/bin")
			s.env["HOME"], s.env["RALPH_INSTALL_DIR"], s.env["RALPH_VERSION"] = s.path("home"), dir, version
			for range 2 { // over itself, too
				code, said := s.install()
				if code != 0 || !strings.Contains(said, "Installed bot v"+released+" in "+dir) || !strings.Contains(said, `export PATH="`+dir) {
					t.Fatalf("exit code %d:\n%s", code, said)
				}
			}
			if found, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(found) != 1 || found[0] != dir+"/ralph-bot" {
				t.Errorf("installed: %q, %v", found, err)
			}
		})
	}
}

// TestInstallRefuses: what is not what was released is not installed.
func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(s *setUp, r *releases)
		want   string
	}{
		"altered": {func(_ *setUp, r *releases) {
			r.alter(func(b []byte) []byte { return append(b, 0) })
		}, "the checksum of the download is wrong"},
		"not in the list": {func(_ *setUp, r *releases) {
			r.put("/v"+released+"/checksums.txt", []byte("00  another.tar.gz\n"))
		}, "the checksum of the download is wrong"},
		"no release": {func(_ *setUp, r *releases) { r.put("/tag/v"+released, nil) }, "there is no release yet"},
		"no such one": {func(s *setUp, _ *releases) {
			s.env["RALPH_VERSION"] = "9.9.9"
		}, "checksums.txt of version 9.9.9 cannot be downloaded"},
		"no version": {func(s *setUp, _ *releases) { s.env["RALPH_VERSION"] = "../../x" }, `is not a version such as`},
		"no curl":    {func(s *setUp, _ *releases) { s.without("curl") }, "curl is missing"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetUp(t)
			tt.change(s, s.serve())
			dir := s.path("home/bin")
			s.env["HOME"], s.env["RALPH_INSTALL_DIR"] = s.path("home"), dir
			code, said := s.install()
			if code != 1 || !strings.Contains(said, tt.want) {
				t.Errorf("exit code %d, want 1 and %q:\n%s", code, tt.want, said)
			}
			if _, err := os.Lstat(dir); err == nil {
				t.Errorf("%s was made", dir)
			}
		})
	}
}
