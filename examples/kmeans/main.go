// Kmeans sorts handwritten digits into clusters of similar images, without knowing
// their digits: Lloyd's k-means with gonum, data-parallel.
//
//	treerun -np 4 ./examples/kmeans
//
// Each rank assigns its share of the images to the nearest of k centers, and adds up the
// images of each. One AllReduce per iteration adds up these sums and counts, from which
// all ranks compute the same new centers.
//
// Pixels are whole numbers, whose sums are exact. So any number of ranks finds the same
// clusters, bit by bit.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/examples/train/data"
	"github.com/treerun/treerun/rank"
)

func main() {
	k := flag.Int("k", 10, "clusters")
	flag.Parse()
	ctx := context.Background()
	w, err := rank.Init(ctx)
	check(err)
	defer w.Close()
	c, err := collective.New(ctx, w)
	check(err)
	images, labels := load()
	if *k < 1 || *k > len(labels) {
		log.Fatalf("-k is %d, want 1 to %d", *k, len(labels))
	}
	n := cluster(ctx, c, images, *k)
	purity := n.purity(ctx, c, images, labels)
	if c.Rank() == 0 {
		fmt.Printf("iterations=%d distance=%.6f purity=%.4f\n", n.iterations, n.distance, purity)
	}
	check(c.Close())
}

// check ends this rank, and with it the job, if err is not nil.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// load returns all images, one per row, and their digits.
func load() (*mat.Dense, []byte) {
	pixels, labels := data.Digits("train")
	values := make([]float64, len(pixels))
	for i, p := range pixels {
		values[i] = float64(p)
	}
	return mat.NewDense(len(labels), data.Pixels, values), labels
}

// clusters are the clusters, the same on all ranks.
type clusters struct {
	centers    *mat.Dense // one per row
	iterations int
	distance   float64 // of an image to its center, the root of the mean square
}

// nearest returns the index of the center nearest to an image.
func (n *clusters) nearest(image []float64) int {
	distances := make([]float64, n.centers.RawMatrix().Rows)
	for i := range distances {
		distances[i] = floats.Distance(image, n.centers.RawRowView(i), 2)
	}
	return floats.MinIdx(distances)
}

// cluster moves centers to the mean of their images until no image gets another center.
func cluster(ctx context.Context, c *collective.Comm, images *mat.Dense, k int) *clusters {
	count, width := images.Dims()
	n := &clusters{centers: mat.NewDense(k, width, nil)}
	for i := range k { // the first centers are images from all over the data, the same on all ranks
		n.centers.SetRow(i, images.RawRowView(i*count/k))
	}
	first, end := c.Rank()*count/c.Size(), (c.Rank()+1)*count/c.Size() // the images of this rank
	centerOf := slices.Repeat([]int{-1}, end-first)                    // the center of each image: none yet
	// The ranks add up, in one message: for each center the sum of its images, then their numbers, the number of
	// images that got another center, and the sum of all squares of pixels.
	total := make([]float64, k*width+k+2)
	sums, numbers, others := mat.NewDense(k, width, total[:k*width]), total[k*width:][:k], total[k*width+k:]
	for moved := true; moved; moved = others[0] > 0 {
		clear(total)
		for i := first; i < end; i++ {
			image := images.RawRowView(i)
			at := n.nearest(image)
			if at != centerOf[i-first] {
				centerOf[i-first] = at
				others[0]++
			}
			floats.Add(sums.RawRowView(at), image)
			numbers[at]++
			others[1] += floats.Dot(image, image)
		}
		check(collective.AllReduce(ctx, c, total, total, collective.Sum))
		n.iterations++
		n.move(sums, numbers, others[1])
	}
	return n
}

// move sets the centers to the mean of their images; a center without images stays. The squares of the distances to the
// mean add up to the squares of the images less those of the means.
func (n *clusters) move(sums *mat.Dense, numbers []float64, squares float64) {
	for i, number := range numbers {
		if number > 0 {
			center := n.centers.RawRowView(i)
			floats.ScaleTo(center, 1/number, sums.RawRowView(i))
			squares -= number * floats.Dot(center, center)
		}
	}
	n.distance = math.Sqrt(squares / floats.Sum(numbers))
}

// purity returns the share of images with the most frequent digit of their cluster.
func (n *clusters) purity(ctx context.Context, c *collective.Comm, images *mat.Dense, labels []byte) float64 {
	k, _ := n.centers.Dims()
	counts := make([]int, k*data.Classes)
	for i := c.Rank(); i < len(labels); i += c.Size() {
		counts[n.nearest(images.RawRowView(i))*data.Classes+int(labels[i])]++
	}
	check(collective.AllReduce(ctx, c, counts, counts, collective.Sum))
	matches := 0
	for cluster := range slices.Chunk(counts, data.Classes) {
		matches += slices.Max(cluster)
	}
	return float64(matches) / float64(len(labels))
}
