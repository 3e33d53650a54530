// Package data is the handwritten digits that examples learn; README.md names source and
// licence. It is for the examples.
package data

import (
	"compress/gzip"
	"embed"
	"io"
)

// Files are the images and labels, in the IDX form of MNIST.
//
//go:embed *.gz
var Files embed.FS

// An image has Pixels pixels, each from 0 to Maximum, and shows one of Classes digits.
const (
	Pixels  = 64
	Maximum = 16
	Classes = 10
)

// Digits returns the images of a part, "train" or "t10k", one after the other, and what each shows.
func Digits(part string) (pixels, labels []byte, err error) {
	if pixels, err = read(part+"-images-idx3-ubyte.gz", 16); err != nil {
		return nil, nil, err
	}
	labels, err = read(part+"-labels-idx1-ubyte.gz", 8)
	return pixels, labels, err
}

// read returns what follows the header of a file.
func read(name string, header int) ([]byte, error) {
	f, err := Files.Open(name)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	all, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	return all[header:], nil
}
