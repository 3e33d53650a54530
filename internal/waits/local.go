package waits

import "context"

// Local returns the Jobs of ranks that are goroutines of one process, by rank.
func Local(ranks int) []*Job {
	all := make([]*Job, ranks)
	for r := range all {
		all[r] = &Job{Rank: r, Size: ranks, Ask: func(ctx context.Context, rank, about int) (Status, error) {
			return all[rank].Status(ctx, about), nil
		}}
	}
	return all
}
