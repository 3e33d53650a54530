package main

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The shards of all ranks are the whole, in order, and differ by at most one.
func TestShard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 200).Draw(t, "n")
		size := rapid.IntRange(1, 70).Draw(t, "size")
		next := 0
		for rank := range size {
			from, to := shard(n, rank, size)
			if from != next || to-from != n/size && to-from != (n+size-1)/size {
				t.Fatalf("rank %d of %d has %d to %d of %d, want a fair share from %d on", rank, size, from, to, n, next)
			}
			next = to
		}
		if next != n {
			t.Fatalf("%d of %d were dealt to %d ranks", next, n, size)
		}
	})
}

func TestParse(t *testing.T) {
	opt, err := parse([]string{"--epochs", "3", "--hidden", "20,10", "--lr=0.5", "--data", "d"})
	if err != nil || opt.epochs != 3 || len(opt.hidden) != 2 || opt.hidden[1] != 10 || opt.rate != 0.5 ||
		opt.data != "d" || opt.batch != 64 {
		t.Errorf("%+v, %v", opt, err)
	}
	for args, want := range map[string]string{
		"--epochs 0":    "--epochs, --batch and --hidden: want",
		"--epochs x":    "--epochs",
		"--batch 0":     "--epochs, --batch and --hidden: want",
		"--hidden 0":    "--epochs, --batch and --hidden: want",
		"--hidden 5,-1": "--epochs, --batch and --hidden: want",
		"--seed -1":     "--seed",
		"--device gpu":  `--device is "gpu"`,
		"--nothing":     "--nothing",
		"digits":        `unexpected argument "digits"`,
	} {
		if _, err := parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", args, err, want)
		}
	}
}
