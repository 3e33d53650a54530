package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// idx returns elements in IDX form.
func idx(elements []byte, shape ...uint32) []byte {
	b := []byte{0, 0, idxUint8, byte(len(shape))}
	for _, n := range shape {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return append(b, elements...)
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestReadIDX(t *testing.T) {
	shape, elements, err := readIDX(bytes.NewReader(idx([]byte{1, 2, 3, 4, 5, 6}, 3, 1, 2)), 3)
	if err != nil || !slices.Equal(shape, []int{3, 1, 2}) || !bytes.Equal(elements, []byte{1, 2, 3, 4, 5, 6}) {
		t.Errorf("%v, % x, %v", shape, elements, err)
	}
}

func TestReadIDXRefuses(t *testing.T) {
	good := idx(make([]byte, 12), 3, 2, 2)
	float := bytes.Clone(good)
	float[2] = 0x0D
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"nothing":        {nil, "truncated"},
		"half a header":  {good[:10], "truncated"},
		"no elements":    {good[:16], "0 of 12 elements: the file is truncated"},
		"one too few":    {good[:27], "11 of 12 elements: the file is truncated"},
		"one too many":   {append(bytes.Clone(good), 0), "continues after its 12 elements"},
		"labels":         {idx(make([]byte, 12), 12), "magic number is 00 00 08 01, want 00 00 08 03"},
		"floats":         {float, "magic number is 00 00 0d 03"},
		"text":           {[]byte("<html>not found</html>"), "magic number"},
		"empty":          {idx(nil, 0, 28, 28), "a dimension is 0"},
		"absurd":         {idx(nil, 1<<31, 1<<31, 1<<31), "more than 1073741824 elements"},
		"wraps to small": {idx(nil, 1<<31, 1<<31, 4), "more than 1073741824 elements"},
		"just too large": {idx(nil, 1<<15, 1<<8, 1<<7+1), "more than 1073741824 elements"},
	} {
		if _, _, err := readIDX(bytes.NewReader(c.file), 3); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// A header without elements does not make the decoder allocate the claimed size.
func TestReadIDXAllocatesWhatIsThere(t *testing.T) {
	claim := idx(nil, 1<<10, 1<<10, 1<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := readIDX(bytes.NewReader(claim), 3); err == nil {
		t.Error("no error")
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes allocated for a file of %d", n, len(claim))
	}
}

// writeSet writes the four files of a data set of 2x2 images.
func writeSet(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func goodSet() map[string][]byte {
	return map[string][]byte{
		"train-images-idx3-ubyte": idx([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255}, 3, 2, 2),
		"train-labels-idx1-ubyte": idx([]byte{0, 2, 1}, 3),
		"t10k-images-idx3-ubyte":  idx([]byte{9, 9, 9, 9}, 1, 2, 2),
		"t10k-labels-idx1-ubyte":  idx([]byte{2}, 1),
	}
}

func TestLoadIDX(t *testing.T) {
	files := goodSet()
	images := files["train-images-idx3-ubyte"]
	delete(files, "train-images-idx3-ubyte")
	files["train-images-idx3-ubyte.gz"] = gzipped(t, images)
	train, test, err := load(writeSet(t, files))
	if err != nil {
		t.Fatal(err)
	}
	if train.size() != 3 || train.width != 4 || train.classes != 3 || train.maximum != 255 || train.pixels[11] != 255 ||
		train.labels[1] != 2 {
		t.Errorf("training images: %+v", train)
	}
	if test.size() != 1 || test.width != 4 || test.labels[0] != 2 || test.pixels[0] != 9 {
		t.Errorf("test images: %+v", test)
	}
}

func TestLoadIDXRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		file     string
		contents func([]byte) []byte
		want     string
	}{
		"missing": {"t10k-labels-idx1-ubyte", nil,
			"neither t10k-labels-idx1-ubyte nor t10k-labels-idx1-ubyte.gz is there"},
		"truncated": {"train-labels-idx1-ubyte", func(b []byte) []byte { return b[:9] },
			"train-labels-idx1-ubyte: 1 of 3 elements: the file is truncated"},
		"truncated gzip": {"train-images-idx3-ubyte", func(b []byte) []byte { z := gzipped(t, b); return z[:len(z)-9] },
			"the file is truncated"},
		"only gzip magic": {"train-images-idx3-ubyte", func([]byte) []byte { return []byte{0x1F, 0x8B, 8} },
			"the file is truncated"},
		"damaged gzip": {"train-images-idx3-ubyte", func(b []byte) []byte { z := gzipped(t, b); z[len(z)-8]++; return z },
			"checksum"},
		"too few labels": {"train-labels-idx1-ubyte", func([]byte) []byte { return idx([]byte{1, 2}, 2) },
			"3 train images, but 2 labels"},
		"other size": {"t10k-images-idx3-ubyte", func([]byte) []byte { return idx(make([]byte, 6), 1, 3, 2) },
			"training images have 4 pixels, test images 6"},
		"new class": {"t10k-labels-idx1-ubyte", func([]byte) []byte { return idx([]byte{3}, 1) },
			"a test image is of class 3; the training images have 3 classes"},
	} {
		files := goodSet()
		if c.contents == nil {
			delete(files, c.file)
		} else {
			files[c.file] = c.contents(files[c.file])
		}
		if _, _, err := load(writeSet(t, files)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
	if _, _, err := load(filepath.Join(t.TempDir(), "nowhere")); err == nil ||
		!strings.Contains(err.Error(), "nowhere") {
		t.Errorf("no such folder: %v", err)
	}
}

// FuzzReadIDX: an accepted file has the shape and the elements in its bytes.
func FuzzReadIDX(f *testing.F) {
	for _, b := range goodSet() {
		f.Add(b, uint8(3))
		f.Add(b, uint8(1))
		f.Add(b[:7], uint8(1))
	}
	f.Add(idx(nil, 1<<31, 1<<31, 4), uint8(3))
	f.Fuzz(func(t *testing.T, file []byte, dimensions uint8) {
		shape, elements, err := readIDX(bytes.NewReader(file), int(dimensions%4))
		if err != nil {
			return
		}
		var dims []uint32
		total := 1
		for _, n := range shape {
			dims = append(dims, uint32(n))
			total *= n
		}
		if total != len(elements) {
			t.Errorf("shape %v, but %d elements", shape, len(elements))
		}
		if again := idx(elements, dims...); !bytes.Equal(again, file) {
			t.Errorf("% x was read from % x", again, file)
		}
	})
}
