package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective"
)

// corpus is a text as numbers of words.
type corpus struct {
	words []string // by number, the most frequent first; on rank 0 alone
	count []int64  // how often each stands in the text
	text  []int32
}

const (
	longestWord = 40      // bytes
	largestFile = 4 << 20 // bytes read of a file
)

// readCorpus reads up to so many words from the files below a folder, in the order of
// their names, and keeps the most frequent.
func readCorpus(path string, words, vocabulary int) (*corpus, error) {
	var text []string
	err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name == path:
			return err
		case err == nil && d.Type().IsRegular() && len(text) < words:
			text = append(text, wordsOf(name)...)
		}
		return nil // folders that may not be read are passed over
	})
	if err != nil {
		return nil, fmt.Errorf("text: %w", err)
	}
	c := number(text[:min(len(text), words)], vocabulary)
	if len(c.words) < 10 {
		return nil, fmt.Errorf("text: %s has %d different words, too few to learn from; --text names another folder", path,
			len(c.words))
	}
	return c, nil
}

// wordsOf returns the words of a file, none of one that cannot be read or is no text.
func wordsOf(name string) (words []string) {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return nil
		}
	}
	data, _ := io.ReadAll(io.LimitReader(r, largestFile)) // or what is left of a broken file
	if bytes.IndexByte(data, 0) >= 0 {
		return nil
	}
	for w := range bytes.FieldsFuncSeq(bytes.ToLower(data), func(c rune) bool { return c < 'a' || c > 'z' }) {
		if len(w) > 1 && len(w) <= longestWord {
			words = append(words, string(w))
		}
	}
	return words
}

// number makes a corpus of a text.
func number(text []string, vocabulary int) *corpus {
	counts := make(map[string]int64)
	for _, w := range text {
		counts[w]++
	}
	c := &corpus{words: slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})}
	c.words = c.words[:min(len(c.words), vocabulary)]
	numbers := make(map[string]int32)
	for i, w := range c.words {
		numbers[w] = int32(i)
		c.count = append(c.count, counts[w])
	}
	for _, w := range text {
		if i, known := numbers[w]; known {
			c.text = append(c.text, i)
		}
	}
	return c
}

// share gives all ranks the numbers of what rank 0 has read.
func share(ctx context.Context, c *collective.Comm, read *corpus) (*corpus, error) {
	sizes := make([]int64, 2)
	if read != nil {
		sizes = []int64{int64(len(read.count)), int64(len(read.text))}
	}
	if err := collective.Broadcast(ctx, c, sizes, sizes, 0); err != nil {
		return nil, err
	}
	if read == nil {
		read = &corpus{count: make([]int64, sizes[0]), text: make([]int32, sizes[1])}
	}
	return read, errors.Join(collective.Broadcast(ctx, c, read.count, read.count, 0),
		collective.Broadcast(ctx, c, read.text, read.text, 0))
}
