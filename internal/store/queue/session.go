package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/org/ralph-action/internal/store"
)

const (
	// presenceClass is the first half of the keys of the advisory locks by which processes
	// show that they are alive; the number of a process's row is the second.
	presenceClass int32 = 0x72616c70
	// leaderClass is that of the lock which the process that leads holds.
	leaderClass = presenceClass + 1
	// seenEvery is the pause between two signs of life, and how soon a connection that
	// broke is made again; seenWithin is how long one may take.
	seenEvery  = time.Second
	seenWithin = 3 * time.Second
	// silent is how long a process must not have been seen to be dead once its lock is
	// free, and stuck how long where it holds the lock: its machine was stopped, or cut
	// off, and its session is ended.
	silent = 2 * time.Second
	stuck  = store.NodeGone
	// reunion is how long after its connection broke a process takes nobody for dead: the
	// others have lost theirs, too, when PostgreSQL was restarted or a standby took over.
	reunion = store.NodeGone
)

// session is the presence of processes with a database in PostgreSQL. Each has a row, and a
// connection that holds an advisory lock by the number of the row for as long as it lives.
type session struct {
	st *store.Store
	member

	cancel context.CancelFunc
	kept   sync.WaitGroup

	mu     sync.Mutex
	conn   *pgx.Conn
	number int32 // of the row that the connection holds the lock of
	alive  context.Context
	lost   context.CancelFunc
	// again is when the connection was made again, zero for the first, and returns how often it
	// was.
	again   time.Time
	returns int
	// heard is when the last sign of life that arrived was given.
	heard time.Time

	leading, drained atomic.Bool
}

func announceSession(ctx context.Context, q *Queue) (*session, error) {
	s := &session{st: q.st, member: q.member}
	if err := s.connect(ctx); err != nil {
		return nil, fmt.Errorf("announce presence: %w", err)
	}
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.kept.Go(func() { s.keep(ctx) })
	return s, nil
}

// capacity is how many agents and checks this node takes at once.
func (s *session) capacity() int {
	if s.agents == nil {
		return 1
	}
	return s.agents()
}

// presenceLocks are the locks that processes in this database hold, by the numbers of
// their rows; $1 is presenceClass.
const presenceLocks = `(SELECT l.objid AS number, l.pid FROM pg_locks l
	JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
	WHERE l.locktype = 'advisory' AND l.classid = $1 AND l.objsubid = 2 AND l.granted) AS held`

// Working is a node that works on a database in PostgreSQL, or did a moment ago and may come
// back; "" where none does. A restart of PostgreSQL frees all locks, so that a sign of life counts
// as well.
func Working(ctx context.Context, st *store.Store) (node string, err error) {
	err = st.Connections().QueryRow(ctx, `
		SELECT node FROM processes WHERE seen_at > clock_timestamp() - $2::interval
			OR number IN (SELECT number FROM `+presenceLocks+`) LIMIT 1`, presenceClass, stuck).Scan(&node)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look who works on the database: %w", err)
	}
	return node, nil
}

// connect makes the connection and takes the lock of a new number: that of a connection
// that broke may still be held by it.
func (s *session) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*seenWithin)
	defer cancel()
	begun := time.Now()
	conn, err := s.st.Connect(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	first := s.alive == nil
	s.mu.Unlock()
	var held bool
	var number int32
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if first { // what was said of an earlier process of the node does not hold for this one
			if _, err := tx.Exec(ctx, `DELETE FROM nodes WHERE name = $1`, s.node); err != nil {
				return err
			}
		}
		// Otherwise its row is gone where others took the node for gone.
		draining := 0
		if s.drained.Load() {
			draining = 1
		}
		if _, err := tx.Exec(ctx, `
			INSERT INTO nodes (name, version, agents, draining) VALUES ($1, $2, $3, $4)
			ON CONFLICT (name) DO UPDATE SET seen_at = clock_timestamp()`,
			s.node, s.version, s.capacity(), draining); err != nil {
			return err
		}
		// A newer version may have changed the tables meanwhile.
		var oldest int64
		if err := tx.QueryRow(ctx, `SELECT oldest FROM compatible`).Scan(&oldest); err != nil {
			return err
		}
		if oldest > s.st.Tables() {
			return fmt.Errorf("%w: only programs that know version %d of the tables work on it", store.ErrNewer, oldest)
		}
		return tx.QueryRow(ctx, `
			WITH me AS (INSERT INTO processes (id, node, tables) VALUES ($1, $3, $4)
				ON CONFLICT (id) DO UPDATE SET number = DEFAULT, seen_at = clock_timestamp() RETURNING number)
			SELECT number, pg_try_advisory_lock($2, number) FROM me`,
			s.id, presenceClass, s.node, s.st.Tables()).Scan(&number, &held)
	})
	if err == nil && !held {
		err = errors.New("a new lock is held by somebody else")
	}
	if err == nil {
		// A sign of life that a power cut takes back is none the less one.
		_, err = conn.Exec(ctx, `SET synchronous_commit = off`)
	}
	if err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alive != nil {
		s.again = time.Now()
		s.returns++
	}
	s.conn, s.number, s.heard = conn, number, begun
	s.alive, s.lost = context.WithCancel(context.Background())
	return s.lead(ctx)
}

// lead has this process lead where no other does. The lock goes with the connection.
func (s *session) lead(ctx context.Context) error {
	if s.leading.Load() {
		return nil
	}
	var held bool
	if err := s.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1, $2)`, leaderClass, 0).Scan(&held); err != nil {
		return err
	}
	s.leading.Store(held)
	return nil
}

// keep gives signs of life until ctx ends. A connection that does not take one in time is
// lost, and made again.
func (s *session) keep(ctx context.Context) {
	tick := time.NewTicker(seenEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.conn == nil {
			_ = s.connect(ctx) // the failure is that of everything else, which is logged
			continue
		}
		if err := s.beat(ctx); err != nil && ctx.Err() == nil {
			s.leading.Store(false)
			s.lost()
			closing, cancel := context.WithTimeout(ctx, seenEvery)
			_ = s.conn.Close(closing) // it is broken
			cancel()
			s.conn = nil
		}
	}
}

// beat gives a sign of life.
func (s *session) beat(ctx context.Context) error {
	// Not ended by a stop: the connection would be lost before it has said that this process leaves.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), seenWithin)
	defer cancel()
	begun := time.Now()
	var draining int
	err := s.conn.QueryRow(ctx, `
		WITH me AS (UPDATE processes SET seen_at = clock_timestamp() WHERE id = $1 AND number = $2 RETURNING node)
		UPDATE nodes SET seen_at = clock_timestamp(), agents = $3 FROM me WHERE name = me.node
		RETURNING draining`, s.id, s.number, s.capacity()).Scan(&draining)
	if errors.Is(err, pgx.ErrNoRows) {
		return errors.New("somebody has taken this process for dead")
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.heard = begun
	s.mu.Unlock()
	s.drained.Store(draining == 1)
	return s.lead(ctx)
}

// leads implements presence.
func (s *session) leads() bool { return s.leading.Load() }

// draining implements presence.
func (s *session) draining() bool { return s.drained.Load() }

// present implements presence. Time passes also while the process is stopped, and by the clock on the
// wall while the machine sleeps.
func (s *session) present() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	const most = stuck - seenWithin
	if s.alive.Err() != nil || time.Since(s.heard) > most || time.Now().Round(0).Sub(s.heard.Round(0)) > most {
		return errAbsent
	}
	return nil
}

// sure implements presence.
func (s *session) sure() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alive.Err() == nil && (s.again.IsZero() || time.Since(s.again) >= reunion)
}

// absences implements presence.
func (s *session) absences() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.returns
}

// held implements presence.
func (s *session) held() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alive
}

// leave implements presence.
func (s *session) leave() error {
	s.cancel()
	s.kept.Wait()
	s.lost()
	if s.conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), seenWithin)
	defer cancel()
	_, err := s.conn.Exec(ctx, `DELETE FROM processes WHERE id = $1 AND number = $2`, s.id, s.number)
	if err := errors.Join(err, s.conn.Close(ctx)); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

// known implements presence.
func (s *session) known(ctx context.Context) (map[string]bool, error) {
	rows, err := s.st.Connections().Query(ctx, `SELECT id FROM processes`)
	if err != nil {
		return nil, fmt.Errorf("look for other processes: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for other processes: %w", err)
	}
	known := map[string]bool{}
	for _, id := range ids {
		known[id] = true
	}
	return known, nil
}

// eachDead implements presence.
func (s *session) eachDead(ctx context.Context, bury func(id string) error) error {
	if !s.sure() {
		return nil
	}
	if err := s.eachSilent(ctx, bury); err != nil {
		return fmt.Errorf("look for dead processes: %w", err)
	}
	return nil
}

func (s *session) eachSilent(ctx context.Context, bury func(id string) error) error {
	rows, err := s.st.Connections().Query(ctx, `
		SELECT id FROM processes WHERE id <> $1 AND seen_at < clock_timestamp() - $2::interval`, s.id, silent)
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(ids) == 0 {
		return err
	}
	// The end of a session frees its lock a moment later: the next look finds it free.
	if _, err := s.st.Connections().Exec(ctx, `
		SELECT pg_terminate_backend(held.pid) FROM processes p JOIN `+presenceLocks+` ON held.number = p.number
		WHERE p.id <> $2 AND p.seen_at < clock_timestamp() - $3::interval`, presenceClass, s.id, stuck); err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		errs = append(errs, s.buryIfDead(ctx, id, bury))
	}
	return errors.Join(errs...)
}

// buryIfDead holds the lock of a process that is silent while it is buried.
func (s *session) buryIfDead(ctx context.Context, id string, bury func(id string) error) error {
	err := pgx.BeginFunc(ctx, s.st.Connections(), func(tx pgx.Tx) error {
		// The row is held as well: a process that comes back waits, and announces itself anew.
		var number int32
		err := tx.QueryRow(ctx, `SELECT number FROM processes
			WHERE id = $1 AND seen_at < clock_timestamp() - $2::interval FOR UPDATE`, id, silent).Scan(&number)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // it is back, or somebody else buried it
		}
		if err != nil {
			return err
		}
		var dead bool
		err = tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1, $2)`, presenceClass, number).Scan(&dead)
		if err != nil || !dead {
			return err
		}
		if err := bury(id); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM processes WHERE id = $1 AND number = $2`, id, number)
		return err
	})
	if err != nil {
		return fmt.Errorf("process %s: %w", id, err)
	}
	return nil
}
