package ghapp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// ErrTooLarge: a file holds more than was asked for.
var ErrTooLarge = errors.New("ghapp: file too large")

// File reads a file of at most limit bytes, as it stands on the default branch.
// One that is not there, or in a repository that the installation does not reach,
// is ErrNotFound; a larger one is ErrTooLarge.
func (r *Repo) File(ctx context.Context, path string, limit int) ([]byte, error) {
	const op = "read file"
	file, _, _, err := r.reader.Repositories.GetContents(ctx, r.owner, r.name, path, nil)
	if err != nil {
		err = wrap(op, err)
		// GitHub mints no token for such a repository.
		if e, ok := errors.AsType[*Error](err); ok && e.Class == Unauthorised && e.Status == http.StatusUnprocessableEntity {
			return nil, fmt.Errorf("%s of %s: %w", op, r.FullName(), ErrNotFound)
		}
		return nil, err
	}
	if file.GetType() != "file" { // a folder, a link to nowhere, a submodule
		return nil, fmt.Errorf("%s of %s: %w", op, r.FullName(), ErrNotFound)
	}
	if file.GetSize() > limit {
		return nil, fmt.Errorf("%s of %s: %w", op, r.FullName(), ErrTooLarge)
	}
	text, err := file.GetContent()
	if err != nil {
		return nil, &Error{Op: op, Class: Permanent, Err: err}
	}
	return []byte(text), nil
}
