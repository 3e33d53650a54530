package main

import "testing"

// The counts are those that UCI states for its test set.
func TestDigits(t *testing.T) {
	train, test, err := load("")
	if err != nil {
		t.Fatal(err)
	}
	if train.size() != 1437 || test.size() != 360 {
		t.Errorf("%d images to train on and %d to test with, want 1437 and 360", train.size(), test.size())
	}
	var counts [10]int
	for _, d := range []*dataset{train, test} {
		if len(d.pixels) != d.size()*64 || d.width != 64 || d.classes != 10 {
			t.Errorf("%d pixels of %d images, width %d, %d classes", len(d.pixels), d.size(), d.width, d.classes)
		}
		for _, label := range d.labels {
			counts[label]++
		}
	}
	if want := [10]int{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}; counts != want {
		t.Errorf("images per digit: %v, want %v", counts, want)
	}
	// The first two lines of the file: a 0, which is for the test, and a 1.
	if test.labels[0] != 0 || train.labels[0] != 1 || test.pixels[2] != 5 || train.pixels[3] != 12 {
		t.Errorf("first images: %d, %v and %d, %v", test.labels[0], test.pixels[:8], train.labels[0], train.pixels[:8])
	}
}

func TestImages(t *testing.T) {
	d := &dataset{pixels: []byte{0, 8, 16, 4, 2, 1}, labels: []byte{7, 5, 3}, width: 2, maximum: 16}
	x, labels := make([]float32, 4), make([]byte, 2)
	d.images([]int{2, 1}, x, labels)
	if want := [4]float32{2. / 16, 1. / 16, 1, 4. / 16}; [4]float32(x) != want || labels[0] != 3 || labels[1] != 5 {
		t.Errorf("pixels %v, labels %v", x, labels)
	}
}
