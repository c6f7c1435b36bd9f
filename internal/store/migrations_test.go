package store

import (
	"path/filepath"
	"testing"
)

// TestEachMigrationGoesBack takes the tables down one version at a time and up again:
// they are the same then.
func TestEachMigrationGoesBack(t *testing.T) {
	t.Parallel()
	st, err := Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	p, err := st.provider()
	if err != nil {
		t.Fatal(err)
	}
	tables := func() (sql string) {
		t.Helper()
		// The columns, in no order: one that is added again comes last.
		const q = `SELECT group_concat(line, char(10)) FROM (
			SELECT m.type || ' ' || m.name || ' ' || coalesce(c.name || ' ' || c.type || ' ' || coalesce(c.dflt_value, ''), m.sql) AS line
			FROM sqlite_schema m LEFT JOIN pragma_table_info(m.name) c ON m.type = 'table'
			WHERE m.name NOT LIKE 'sqlite_%' AND m.name NOT LIKE 'goose_%' ORDER BY line)`
		if err := st.writer.QueryRowContext(t.Context(), q).Scan(&sql); err != nil {
			t.Fatal(err)
		}
		return sql
	}
	want := tables()
	for _, m := range p.ListSources()[1:] {
		if _, err := p.DownTo(t.Context(), m.Version-1); err != nil {
			t.Fatalf("down to %d: %v", m.Version-1, err)
		}
		if _, err := p.Up(t.Context()); err != nil {
			t.Fatalf("up from %d: %v", m.Version-1, err)
		}
		if got := tables(); got != want {
			t.Errorf("after going back to %d the tables are\n%s\nand not\n%s", m.Version-1, got, want)
		}
	}
}
