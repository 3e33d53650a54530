package main

import (
	"context"
	"math"
	"sync"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/treerun/treerun/collective"
)

// clusterOnRanks finds clusters on ranks that are goroutines, which all must find the same.
func clusterOnRanks(t *testing.T, size int, images *mat.Dense, labels []byte, k int) (*clusters, float64) {
	t.Helper()
	found, purity := make([]*clusters, size), make([]float64, size)
	var wg sync.WaitGroup
	for i, w := range collective.InProcess(size) {
		wg.Go(func() {
			c, err := collective.New(context.Background(), w)
			check(err)
			found[i] = cluster(context.Background(), c, images, k)
			purity[i] = found[i].purity(context.Background(), c, images, labels)
			check(c.Close())
		})
	}
	wg.Wait()
	for i, n := range found {
		if !mat.Equal(n.centers, found[0].centers) || n.distance != found[0].distance || purity[i] != purity[0] {
			t.Errorf("%d ranks: rank %d has other clusters than rank 0", size, i)
		}
	}
	return found[0], purity[0]
}

// Any number of ranks finds the clusters of one rank, which fit the digits, and whose distance is the measured one.
func TestAnyNumberOfRanks(t *testing.T) {
	images, labels := load()
	one, purity := clusterOnRanks(t, 1, images, labels, 10)
	if purity < 0.7 {
		t.Errorf("purity %.4f, want 0.7: of digits in clusters by chance it is 0.11", purity)
	}
	var squares float64
	for i := range labels {
		image := images.RawRowView(i)
		d := floats.Distance(image, one.centers.RawRowView(one.nearest(image)), 2)
		squares += d * d
	}
	if d := math.Sqrt(squares / float64(len(labels))); math.Abs(d-one.distance) > 1e-9 {
		t.Errorf("the distance is %v, and printed as %v", d, one.distance)
	}
	for _, size := range []int{3, 4, 8} {
		n, p := clusterOnRanks(t, size, images, labels, 10)
		if !mat.Equal(n.centers, one.centers) || n.distance != one.distance || n.iterations != one.iterations || p != purity {
			t.Errorf("%d ranks: %d iterations to %v and %v, one rank %d to %v and %v",
				size, n.iterations, n.distance, p, one.iterations, one.distance, purity)
		}
	}
}

// Ranks without images take part as well; as many clusters as images are the images, one cluster is their mean.
func TestFewImages(t *testing.T) {
	images := mat.NewDense(3, 2, []float64{0, 0, 4, 0, 2, 6})
	for k, want := range map[int]*mat.Dense{1: mat.NewDense(1, 2, []float64{2, 2}), 3: images} {
		n, _ := clusterOnRanks(t, 5, images, make([]byte, 3), k)
		if !mat.Equal(n.centers, want) {
			t.Errorf("%d clusters are at %v", k, mat.Formatted(n.centers))
		}
	}
}
