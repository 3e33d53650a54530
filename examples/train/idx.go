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
	"path/filepath"
	"slices"
)

// The IDX format of MNIST and its successors: a magic number 0, 0, type, number
// of dimensions; the dimensions, 32 bits each, big-endian; the elements.
const (
	idxUint8    = 0x08    // the only type that these data sets use
	maxIDXBytes = 1 << 30 // of elements; Fashion-MNIST has 47 million
)

// readIDX reads an IDX file of unsigned bytes with the given number of
// dimensions. What the header claims is checked before it is believed.
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
		return nil, nil, fmt.Errorf("the file goes on after its %d elements", total)
	}
	return shape, elements, nil
}

// truncated gives an early end of file its name.
func truncated(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file is truncated")
	}
	return err
}

// openIDX reads DIR/name or DIR/name.gz.
func openIDX(dir, name string, dimensions int) (shape []int, elements []byte, err error) {
	path := filepath.Join(dir, name)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.Open(path + ".gz")
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("%s: neither %s nor %s.gz is there; --data wants the folder of an IDX data set "+
				"(Debian's package dataset-fashion-mnist has one)", dir, name, name)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	var from io.Reader = r
	if head, _ := r.Peek(2); bytes.Equal(head, []byte{0x1F, 0x8B}) {
		if from, err = gzip.NewReader(r); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.Name(), truncated(err))
		}
	}
	if shape, elements, err = readIDX(from, dimensions); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return shape, elements, nil
}

// loadIDX reads the training and the test images from the four files of an IDX
// data set.
func loadIDX(dir string) (train, test *dataset, err error) {
	if train, err = loadIDXPart(dir, "train"); err != nil {
		return nil, nil, err
	}
	if test, err = loadIDXPart(dir, "t10k"); err != nil {
		return nil, nil, err
	}
	if train.width != test.width {
		return nil, nil, fmt.Errorf("%s: training images have %d pixels, test images %d", dir, train.width, test.width)
	}
	if test.classes > train.classes {
		return nil, nil, fmt.Errorf("%s: a test image is of class %d; the training images have %d classes", dir,
			test.classes-1, train.classes)
	}
	return train, test, nil
}

func loadIDXPart(dir, part string) (*dataset, error) {
	shape, pixels, err := openIDX(dir, part+"-images-idx3-ubyte", 3)
	if err != nil {
		return nil, err
	}
	_, labels, err := openIDX(dir, part+"-labels-idx1-ubyte", 1)
	if err != nil {
		return nil, err
	}
	if shape[0] != len(labels) {
		return nil, fmt.Errorf("%s: %d %s images, but %d labels", dir, shape[0], part, len(labels))
	}
	return &dataset{
		pixels:  pixels,
		labels:  labels,
		width:   shape[1] * shape[2],
		maximum: 255,
		classes: int(slices.Max(labels)) + 1,
	}, nil
}
