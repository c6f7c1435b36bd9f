// Package s3test gives tests a real S3: the gateway of Versity, which scripts/tools.sh builds,
// on files in a directory of its own, and gone with the test program.
package s3test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	blobs3 "github.com/org/ralph-action/internal/blob/s3"
)

// The only account.
const (
	accessKey = "ralph-tests"
	secretKey = "the-secret-of-ralph-tests"
)

// script runs a server until its standard input ends, and removes its directory then.
const script = `
set -u
dir=$1
shift
"$@" >"$dir/log" 2>&1 &
read -r _
kill $!
wait
rm -rf "$dir"
`

// server is one that runs until its in is closed, by the kernel when this program ends.
type server struct {
	blobs3.Options
	in io.Closer
}

var shared = sync.OnceValues(start)

// Bucket makes an empty bucket in a server that all tests of a program share.
func Bucket(t testing.TB) blobs3.Options {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	o := s.Options
	o.Bucket = strings.ToLower(rand.Text())
	if err := create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return o
}

func start() (_ *server, err error) {
	program, err := find()
	if err != nil {
		return nil, fmt.Errorf("the S3 server is missing (scripts/tools.sh test builds it): %w", err)
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ralph-s3-")
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "data"), 0o700)
	}
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	//nolint:noctx // it ends with this program
	cmd := exec.Command("/bin/sh", "-c", script, "sh", dir, program, "--port", addr, "--quiet", "posix", data)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secretKey)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the terminal's ^C is not for it
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the S3 server: %w", err), os.RemoveAll(dir))
	}
	return &server{blobs3.Options{
		Endpoint: "http://" + addr, Region: "us-east-1", AccessKey: accessKey, SecretKey: secretKey,
	}, in}, nil
}

// create makes the bucket. The client asks until the server is there.
func create(ctx context.Context, o blobs3.Options) error {
	client := s3.New(s3.Options{
		BaseEndpoint: &o.Endpoint, Region: o.Region, UsePathStyle: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: o.AccessKey, SecretAccessKey: o.SecretKey}, nil
		}),
		Retryer: retry.NewStandard(func(r *retry.StandardOptions) {
			r.MaxAttempts, r.MaxBackoff, r.RateLimiter = 1000, 50*time.Millisecond, ratelimit.None
		}),
	})
	_, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &o.Bucket})
	return err
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it waits for nothing
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// find looks for the server's program, in the repository that the tests are in.
func find() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			program := filepath.Join(dir, ".cache", "bin", "versitygw")
			_, err = os.Stat(program)
			return program, err
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("the tests are in no repository")
		}
	}
}
