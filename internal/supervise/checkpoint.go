package supervise

import "slices"

// Checkpoint is a tree that the work can go back to.
type Checkpoint struct {
	// Iteration is the one that left it, 0 for where the run began.
	Iteration int
	// Commit is the one that holds the tree, "" where it did not land.
	Commit  string
	Tree    string
	Metrics Metrics
}

// Best is the checkpoint to go back to: of those since the last landing, that
// included, the one with the most passing tests, then the fewest warnings, then
// the latest. Older ones are no choice: what landed stays. ok is false where
// there is none.
func Best(checkpoints []Checkpoint) (best Checkpoint, ok bool) {
	for _, c := range slices.Backward(checkpoints) {
		if !ok || c.Metrics.beats(best.Metrics) {
			best, ok = c, true
		}
		if c.Commit != "" {
			break
		}
	}
	return best, ok
}

// CheckpointDue says whether the tree that the last iteration left is worth a
// checkpoint: it landed, it is better than the last checkpoint, or the last one
// is long ago and this one is no worse.
func CheckpointDue(cfg Config, h History) bool {
	if len(h.Iterations) == 0 || cfg.MaxCheckpoints <= 0 {
		return false
	}
	it := h.Iterations[len(h.Iterations)-1]
	if it.neutral() || it.Outcome == Broken {
		return false
	}
	if len(h.Checkpoints) == 0 {
		return true
	}
	last := h.Checkpoints[len(h.Checkpoints)-1]
	if last.Iteration >= it.Number {
		return false
	}
	old := cfg.CheckpointInterval > 0 && it.Number-last.Iteration >= cfg.CheckpointInterval
	tests, _ := it.Metrics.known()
	return it.Landed || tests > 0 && it.Metrics.beats(last.Metrics) || old && !Regressed(it.Metrics, last.Metrics)
}

// AddCheckpoint appends c and keeps at most limit of them: the best one, and of
// the others the latest. The slice that was handed in stays as it is.
func AddCheckpoint(checkpoints []Checkpoint, c Checkpoint, limit int) []Checkpoint {
	all := append(slices.Clone(checkpoints), c)
	if limit <= 0 {
		return nil
	}
	if len(all) <= limit {
		return all
	}
	best, _ := Best(all)
	kept := all[len(all)-limit:]
	if !slices.ContainsFunc(kept, func(k Checkpoint) bool {
		return k.Iteration == best.Iteration && k.Tree == best.Tree && k.Commit == best.Commit
	}) {
		kept[0] = best
	}
	return slices.Clone(kept)
}
