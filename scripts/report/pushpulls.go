package main

import (
	"context"
	"fmt"
	"time"
)

var (
	pushPullAlgorithms = []string{"ring", "star", "kl", "multi"}
	pushPullCounts     = []int{1, 50, 150}
)

// pushPulls measures some AllReduces at once with eight ranks of this machine.
func (m *run) pushPulls(ctx context.Context) error {
	l := load{ops: "allreduce", begin: 4 * kib, end: 4 * mib, factor: 4, iters: 20, warmup: 5, seconds: 0.5,
		inPlace: "no", check: true}
	if m.quick {
		l.end = 64 * kib
	}
	w := where{nil, 1, 8}
	return m.repetitions(ctx, func() error {
		for _, n := range pushPullCounts {
			for _, a := range m.turn(pushPullAlgorithms...) {
				line := l.bench(append(w.ranks(), "--algorithm", a, "--inflight", fmt.Sprint(n))...)
				k := key{Part: fmt.Sprint(n), Who: a}
				if err := m.job(ctx, w, 10*time.Minute, k, append([]string{m.treerun}, line...)...); err != nil {
					return fmt.Errorf("%s, %d in flight: %w", a, n, err)
				}
			}
		}
		return nil
	})
}
