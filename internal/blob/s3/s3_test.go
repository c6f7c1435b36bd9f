//go:build s3

package s3_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/org/ralph-action/internal/blob"
	"github.com/org/ralph-action/internal/blob/blobtest"
	"github.com/org/ralph-action/internal/blob/s3"
	"github.com/org/ralph-action/internal/blob/s3/s3test"
)

func TestS3(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blob.Store { return s3.New(s3test.Bucket(t)) })
}

// TestPrefix: two that share a bucket do not see each other.
func TestPrefix(t *testing.T) {
	t.Parallel()
	o := s3test.Bucket(t)
	o.Prefix = "one"
	blobtest.Run(t, func(t *testing.T) blob.Store {
		mine := o
		mine.Prefix = "one/" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
		return s3.New(mine)
	})
	other := s3.New(o)
	if err := other.Put(t.Context(), "a", strings.NewReader("a")); err != nil {
		t.Error(err)
	}
	o.Prefix = "on"
	if all, err := s3.New(o).List(t.Context(), ""); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestErrors: they say what is wrong, and no secret.
func TestErrors(t *testing.T) {
	t.Parallel()
	right := s3test.Bucket(t)
	for want, change := range map[string]func(*s3.Options){
		"S3 answers NoSuchBucket":          func(o *s3.Options) { o.Bucket = "other" },
		"S3 answers SignatureDoesNotMatch": func(o *s3.Options) { o.SecretKey = "hunter2-hunter2" },
		"S3 answers XAdminUserNotFound":    func(o *s3.Options) { o.AccessKey = "nobody" },
		"S3 cannot be reached":             func(o *s3.Options) { o.Endpoint = "http://127.0.0.1:1" },
	} {
		o := right
		change(&o)
		s := s3.New(o)
		_, listErr := s.List(t.Context(), "")
		_, openErr := s.Open(t.Context(), "a")
		for what, err := range map[string]error{
			"put": s.Put(t.Context(), "a", strings.NewReader("a")), "open": openErr, "list": listErr,
			"delete": s.Delete(t.Context(), "a"),
		} {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(errors.Join(err).Error(), o.SecretKey) {
				t.Errorf("%s: want %q, got %v", what, want, err)
			}
		}
	}
}
