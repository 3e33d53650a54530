package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// corpus is a text as numbers of words.
type corpus struct {
	words []string // by number, the most frequent first; only on the rank that has read the text
	Count []int64  // the number of times each occurs in the text
	Text  []int32
}

const (
	longestWord = 40      // bytes
	largestFile = 4 << 20 // bytes read of a file
)

// readCorpus reads up to the given number of words from the files below a folder, in the order of
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
		return nil // folders without read permission are skipped
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

// wordsOf returns the words of a file, or none if it cannot be read or is not text.
func wordsOf(name string) (words []string) {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, largestFile)) // or the readable part of a broken file
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

// number makes a corpus from a text.
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
		c.Count = append(c.Count, counts[w])
	}
	for _, w := range text {
		if i, known := numbers[w]; known {
			c.Text = append(c.Text, i)
		}
	}
	return c
}
