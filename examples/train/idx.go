package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/treerun/treerun/examples/train/data"
)

// The IDX format of MNIST and its successors: a magic number 0, 0, type, number
// of dimensions; the dimensions, 32 bits each, big-endian; the elements.
const (
	idxUint8    = 0x08    // the only type that these data sets use
	maxIDXBytes = 1 << 30 // of elements; Fashion-MNIST has 47 million
)

// readIDX reads an IDX file of unsigned bytes with the given number of
// dimensions. The sizes in the header are checked before they are used.
func readIDX(r io.Reader, dimensions int) (shape []int, elements []byte, err error) {
	file, err := io.ReadAll(io.LimitReader(r, maxIDXBytes+1<<10))
	if err != nil {
		return nil, nil, truncated(err)
	}
	if len(file) < 4+4*dimensions {
		return nil, nil, fmt.Errorf("header: %w", truncated(io.EOF))
	}
	magic, header, elements := file[:4], file[4:4+4*dimensions], file[4+4*dimensions:]
	if want := []byte{0, 0, idxUint8, byte(dimensions)}; !bytes.Equal(magic, want) {
		return nil, nil, fmt.Errorf("magic number is % x, want % x (bytes in %d dimensions)", magic, want, dimensions)
	}
	total := 1
	for h := header; len(h) > 0; h = h[4:] {
		n := int(binary.BigEndian.Uint32(h))
		if n == 0 || n > maxIDXBytes/total {
			return nil, nil, fmt.Errorf("dimensions % x: a dimension is 0, or there are more than %d elements", header,
				maxIDXBytes)
		}
		total *= n
		shape = append(shape, n)
	}
	if len(elements) < total {
		return nil, nil, fmt.Errorf("%d of %d elements: %w", len(elements), total, truncated(io.EOF))
	}
	if len(elements) > total {
		return nil, nil, fmt.Errorf("the file continues after its %d elements", total)
	}
	return shape, elements, nil
}

// truncated returns err, with a clear text for an early end of file.
func truncated(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file is truncated")
	}
	return err
}

// openIDX reads the file of a name, or the one with .gz appended.
func openIDX(dir fs.FS, name string, dimensions int) (shape []int, elements []byte, err error) {
	f, err := dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = dir.Open(name + ".gz")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("neither %s nor %s.gz is there; --data wants the folder of an IDX data set "+
			"(Debian's package dataset-fashion-mnist has one)", name, name)
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	var from io.Reader = r
	if head, _ := r.Peek(2); bytes.Equal(head, []byte{0x1F, 0x8B}) {
		if from, err = gzip.NewReader(r); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, truncated(err))
		}
	}
	if shape, elements, err = readIDX(from, dimensions); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return shape, elements, nil
}

// load reads the training and the test images of the folder with an IDX data set, or the
// digits that come with the example.
func load(folder string) (train, test *dataset, err error) {
	dir, maximum := fs.FS(data.Files), byte(data.Maximum)
	if folder != "" {
		dir, maximum = os.DirFS(folder), 255
	}
	if train, err = loadPart(dir, "train", maximum); err == nil {
		test, err = loadPart(dir, "t10k", maximum)
	}
	switch {
	case err != nil:
	case train.width != test.width:
		err = fmt.Errorf("training images have %d pixels, test images %d", train.width, test.width)
	case test.classes > train.classes:
		err = fmt.Errorf("a test image is of class %d; the training images have %d classes", test.classes-1, train.classes)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", folder, err)
	}
	return train, test, nil
}

// loadPart reads the images and the labels of a part of a data set.
func loadPart(dir fs.FS, part string, maximum byte) (*dataset, error) {
	shape, pixels, err := openIDX(dir, part+"-images-idx3-ubyte", 3)
	if err != nil {
		return nil, err
	}
	_, labels, err := openIDX(dir, part+"-labels-idx1-ubyte", 1)
	if err != nil {
		return nil, err
	}
	if shape[0] != len(labels) {
		return nil, fmt.Errorf("%d %s images, but %d labels", shape[0], part, len(labels))
	}
	return &dataset{
		pixels:  pixels,
		labels:  labels,
		width:   shape[1] * shape[2],
		maximum: maximum,
		classes: int(slices.Max(labels)) + 1,
	}, nil
}
