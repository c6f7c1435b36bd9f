package config

import (
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// Files says where files are that must outlive the machine they were written on.
type Files struct {
	// S3 is used where it has a bucket; else they are in PostgreSQL, or stay where they are.
	S3 S3
	// Keys encrypt them, in base64: the first one does, all decrypt.
	Keys []Secret
}

// S3 is a bucket of objects.
type S3 struct {
	Endpoint, Region, Bucket, Prefix string
	AccessKey, SecretKey             Secret
}

type filesFile struct {
	S3 struct {
		Endpoint string `yaml:"endpoint"`
		Region   string `yaml:"region"`
		Bucket   string `yaml:"bucket"`
		Prefix   string `yaml:"prefix"`
	} `yaml:"s3"`
	EncryptionKeyFile string `yaml:"encryption_key_file"`
}

// files is what f says.
func (f filesFile) files() Files {
	return Files{S3: S3{
		Endpoint: strings.TrimRight(f.S3.Endpoint, "/"), Region: f.S3.Region, Bucket: f.S3.Bucket,
		Prefix: strings.Trim(f.S3.Prefix, "/"),
	}}
}

// https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
var (
	bucketPattern = strs.Lazy(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	prefixPattern = strs.Lazy(`^([A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*)?$`)
	regionPattern = strs.Lazy(`^[A-Za-z0-9-]{1,64}$`)
)

func (f Files) check(report reporter) {
	s := f.S3
	if s.Bucket == "" {
		if s.Endpoint != "" || s.Prefix != "" {
			report("$.files.s3", "needs a bucket")
		}
		return
	}
	checkURL("$.files.s3.endpoint", s.Endpoint, report)
	if !bucketPattern().MatchString(s.Bucket) {
		report("$.files.s3.bucket", "%q is not the name of a bucket", clip(s.Bucket))
	}
	if !prefixPattern().MatchString(s.Prefix) || len(s.Prefix) > 256 {
		report("$.files.s3.prefix", "%q is not made of names with slashes between them", clip(s.Prefix))
	}
	if !regionPattern().MatchString(s.Region) {
		report("$.files.s3.region", "%q is not the name of a region", clip(s.Region))
	}
}

func (f Files) checkSecrets(postgres bool, report reporter) {
	if len(f.Keys) > 0 && f.S3.Bucket == "" && !postgres {
		report("$.files.encryption_key_file", "there is nothing to encrypt: files stay in data_dir without database_url "+
			"or files.s3")
	}
	if f.S3.Bucket != "" && (f.S3.AccessKey.Empty() || f.S3.SecretKey.Empty()) {
		report("$.files.s3", "the bucket has no credential; set %s and %s", EnvS3AccessKey, EnvS3SecretKey)
	}
}
