package store

import (
	"database/sql"
)

// DB is the writing connection.
func (s *Store) DB() *sql.DB { return s.writer }
