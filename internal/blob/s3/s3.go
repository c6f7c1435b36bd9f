package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/org/ralph-action/internal/blob"
)

// Options say which bucket, and as whom.
type Options struct {
	// Endpoint is the address of the service, without the bucket.
	Endpoint, Region, Bucket string
	// Prefix is put before each name, with a slash between them; "" for none.
	Prefix               string
	AccessKey, SecretKey string
}

// How long a server may take to be there, and to begin its answer.
const (
	connectFor = 10 * time.Second
	answerFor  = 30 * time.Second
)

// Store is a blob.Store of objects.
type Store struct {
	client *s3.Client
	bucket string
	prefix string
}

// New gives the store. It asks the server for nothing yet.
func New(o Options) *Store {
	keys := aws.Credentials{AccessKeyID: o.AccessKey, SecretAccessKey: o.SecretKey}
	client := s3.New(s3.Options{
		BaseEndpoint: &o.Endpoint, Region: o.Region,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return keys, nil }),
		HTTPClient: awshttp.NewBuildableClient().
			WithDialerOptions(func(d *net.Dialer) { d.Timeout = connectFor }).
			WithTransportOptions(func(t *http.Transport) { t.ResponseHeaderTimeout = answerFor }),
		// Not every server has a name for each bucket.
		UsePathStyle: true,
		// Blobs have hashes of their own, and not every server knows those of AWS.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	})
	s := &Store{client: client, bucket: o.Bucket}
	if o.Prefix != "" {
		s.prefix = o.Prefix + "/"
	}
	return s
}

// Put implements blob.Store. What r gives is first on this machine's disk, since S3 wants to
// know its size and may have to be sent it twice.
func (s *Store) Put(ctx context.Context, name string, r io.Reader) (err error) {
	if err := blob.CheckName(name); err != nil {
		return err
	}
	f, err := os.CreateTemp("", "ralph-blob-")
	if err != nil {
		return fmt.Errorf("put %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	size, err := io.Copy(f, r)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		_, err = s.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &s.bucket, Key: s.key(name), Body: f, ContentLength: &size,
		})
	}
	return trouble("put "+name, err)
}

// Open implements blob.Store.
func (s *Store) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := blob.CheckName(name); err != nil {
		return nil, err
	}
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: s.key(name)})
	if err != nil {
		return nil, trouble("open "+name, err)
	}
	return out.Body, nil
}

// Delete implements blob.Store, one object after the other: not every server takes several.
func (s *Store) Delete(ctx context.Context, names ...string) error {
	for _, name := range names {
		_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: s.key(name)})
		if err = trouble("delete "+name, err); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// List implements blob.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]blob.Info, error) {
	var all []blob.Info
	pages := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: s.key(prefix)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, trouble("list files", err)
		}
		for _, o := range page.Contents {
			name := strings.TrimPrefix(aws.ToString(o.Key), s.prefix)
			if blob.CheckName(name) == nil { // else it is somebody else's
				all = append(all, blob.Info{Name: name, Size: aws.ToInt64(o.Size), Put: aws.ToTime(o.LastModified)})
			}
		}
	}
	slices.SortFunc(all, func(a, b blob.Info) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func (s *Store) key(name string) *string {
	key := s.prefix + name
	return &key
}

// trouble is err in the server's words, where it has answered.
func trouble(doing string, err error) error {
	if err == nil {
		return nil
	}
	if missing, ok := errors.AsType[*types.NoSuchKey](err); ok {
		return fmt.Errorf("%s: %w: %s", doing, fs.ErrNotExist, missing.ErrorCode())
	}
	if said, ok := errors.AsType[smithy.APIError](err); ok {
		return fmt.Errorf("%s: S3 answers %s: %s", doing, said.ErrorCode(), said.ErrorMessage())
	}
	if unsent, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%s: S3 cannot be reached: %w", doing, unsent.Err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
