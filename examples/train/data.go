package main

// dataset is a set of labeled images. The pixels stay bytes, four times
// smaller than float32: every rank holds the whole set.
type dataset struct {
	pixels  []byte // size() images of width pixels
	labels  []byte // one class per image
	width   int    // pixels per image
	maximum byte   // of a pixel, as the format has it
	classes int
}

func (d *dataset) size() int { return len(d.labels) }

// images copies the images that indices names into rows of x, with pixels from
// 0 to 1, and their labels into labels.
func (d *dataset) images(indices []int, x []float32, labels []byte) {
	scale := 1 / float32(d.maximum)
	for row, i := range indices {
		labels[row] = d.labels[i]
		to := x[row*d.width:][:d.width]
		for j, p := range d.pixels[i*d.width:][:d.width] {
			to[j] = float32(p) * scale
		}
	}
}
