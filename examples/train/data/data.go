// Package data holds the handwritten digits that examples learn; README.md names their source and
// license. It is for the examples.
package data

import (
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
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

// Digits returns the images of a part, "train" or "t10k", one after the other, and the digit of each.
func Digits(part string) (pixels, labels []byte) {
	return read(part+"-images-idx3-ubyte.gz", 16), read(part+"-labels-idx1-ubyte.gz", 8)
}

// read returns the bytes after the header of a file, which is in the program, so that reading cannot fail.
func read(name string, header int) []byte {
	packed, err1 := Files.ReadFile(name)
	z, err2 := gzip.NewReader(bytes.NewReader(packed))
	all, err3 := io.ReadAll(z)
	if err := errors.Join(err1, err2, err3); err != nil {
		panic(err)
	}
	return all[header:]
}
