//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

// reducer is a rank that averages gradients in buckets: "reducer [FAULT]". Rank 1 has the fault in the third pass.
func reducer() {
	ctx, fault := context.Background(), ""
	if len(os.Args) > 1 {
		fault = os.Args[1]
	}
	failed := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
	}
	w, err := rank.Init(ctx)
	failed(err)
	defer w.Close()
	c, err := collective.New(ctx, w)
	failed(err)
	gradients := [][]float32{make([]float32, 1000), make([]float32, 1<<20), make([]float32, 300)}
	if fault == "differ" && w.Rank() == 1 {
		gradients[2] = nil
	}
	buckets, err := collective.NewBuckets(ctx, c, gradients, collective.Avg, 0)
	if fault == "differ" {
		fmt.Println(err)
		failed(collective.Barrier(ctx, c)) // c stays usable
		fmt.Println("after a Barrier")
		failed(c.Close())
		return
	}
	failed(err)
	for pass := range 5 {
		for i := range gradients {
			if w.Rank() == 0 {
				i = 2 - i // another order than that of the other ranks
			}
			has := ""
			if pass == 2 && i == 1 && w.Rank() == 1 {
				has = fault
			}
			switch has {
			case "kill":
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			case "forget":
				continue
			case "other":
				failed(collective.Barrier(ctx, c))
			}
			for k := range gradients[i] {
				gradients[i][k] = float32(k%100 + i + pass + w.Rank())
			}
			failed(buckets.Ready(i))
		}
		failed(buckets.Wait(ctx))
		for i, g := range gradients {
			for k, v := range g {
				if want := float32(k%100+i+pass) + float32(w.Size()-1)/2; v != want {
					failed(fmt.Errorf("pass %d: element %d of slice %d is %v, want %v", pass, k, i, v, want))
				}
			}
		}
	}
	fmt.Println("averaged")
	failed(c.Close())
}
