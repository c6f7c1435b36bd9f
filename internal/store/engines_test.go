package store_test

import (
	"path/filepath"
	"testing"

	"github.com/org/ralph-action/internal/store"
)

// engine is what a suite of tests is run on.
type engine struct {
	store.Engine
	// name makes a new database, which store.Open knows by that name.
	name func(t testing.TB) string
}

// fresh opens a new database.
func (e engine) fresh(t testing.TB) *store.Store {
	t.Helper()
	return open(t, e.name(t))
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	suite(t, engine{store.SQLite, func(t testing.TB) string { return filepath.Join(t.TempDir(), "bot.db") }})
}

// suite is what both engines have to pass.

func suite(t *testing.T, e engine) {
	for _, tc := range []struct {
		name string
		test func(*testing.T, engine)
	}{
		{"Restored", testRestored},
		{"InputSpeaksOnce", testInputSpeaksOnce},
		{"PendingInputsByKindInOrder", testPendingInputsByKindInOrder},
		{"CountInputs", testCountInputs},
		{"StateAndInputsTogether", testStateAndInputsTogether},
		{"RunsByPullAndRename", testRunsByPullAndRename},
		{"LessonsOnlyOfMergedWork", testLessonsOnlyOfMergedWork},
		{"Lessons", testLessons},
		{"ARepositoryIsKnownByTheNameOfItsNewestRun", testARepositoryIsKnownByTheNameOfItsNewestRun},
		{"LessonsStayWithTheirRepository", testLessonsStayWithTheirRepository},
		{"Pause", testPause},
		{"Decisions", testDecisions},
		{"Backlog", testBacklog},
		{"Places", testPlaces},
		{"RunOfPlan", testRunOfPlan},
		{"ReplacedRunIsForgotten", testReplacedRunIsForgotten},
		{"PlanHasOneActiveRun", testPlanHasOneActiveRun},
		{"PruneDeliveries", testPruneDeliveries},
		{"PruneRuns", testPruneRuns},
		{"EndedStatesAreCompressed", testEndedStatesAreCompressed},
		{"InTxRollsBack", testInTxRollsBack},
		{"Delivery", testDelivery},
		{"DeliveryAcceptedOnceAmongProcesses", testDeliveryAcceptedOnceAmongProcesses},
		{"KilledProcess", testKilledProcess},
		{"Exclusively", testExclusively},
		{"Run", testRun},
		{"OneActiveRunPerIssue", testOneActiveRunPerIssue},
		{"Lease", testLease},
		{"LeaseAmongProcesses", testLeaseAmongProcesses},
		{"SaveState", testSaveState},
		{"RequestCancel", testRequestCancel},
		{"Effects", testEffects},
		{"DueEffect", testDueEffect},
		{"EffectBegunOnceAmongProcesses", testEffectBegunOnceAmongProcesses},
		{"Refused", testRefused},
		{"OldestWaiting", testOldestWaiting},
		{"Queries", testQueries},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, e) })
	}
}
