package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"hash/fnv"
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
	words []string // by number, the most frequent first
	count []int    // how often each stands in the text
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
		case err != nil:
			if name == path {
				return err
			}
			return nil // a folder that may not be read
		case len(text) >= words:
			return fs.SkipAll
		case !d.Type().IsRegular():
			return nil
		}
		text = appendFile(text, name, words)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("text: %w", err)
	}
	c := number(text, vocabulary)
	if len(c.words) < 10 {
		return nil, fmt.Errorf("text: %s has %d different words, too few to learn from; --text names another folder", path,
			len(c.words))
	}
	return c, nil
}

// appendFile adds the words of a file, up to so many in all; none of one that cannot
// be read or is no text.
func appendFile(text []string, name string, most int) []string {
	f, err := os.Open(name)
	if err != nil {
		return text
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return text
		}
	}
	in := bufio.NewReader(io.LimitReader(r, largestFile))
	if head, _ := in.Peek(512); slices.Contains(head, 0) {
		return text
	}
	var word []byte
	for len(text) < most {
		b, err := in.ReadByte()
		switch {
		case 'A' <= b && b <= 'Z':
			b += 'a' - 'A'
			fallthrough
		case 'a' <= b && b <= 'z':
			if err == nil {
				word = append(word, b)
				continue
			}
		}
		if len(word) > 1 && len(word) <= longestWord {
			text = append(text, string(word))
		}
		word = word[:0]
		if err != nil {
			break // the end, or what is left of a broken file
		}
	}
	return text
}

// number makes a corpus of a text.
func number(text []string, vocabulary int) *corpus {
	counts := make(map[string]int)
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

// digest is a number of the whole corpus.
func (c *corpus) digest() int64 {
	h := fnv.New64a()
	for _, w := range c.words {
		io.WriteString(h, w+"\n")
	}
	for _, i := range c.text {
		h.Write([]byte{byte(i), byte(i >> 8), byte(i >> 16)})
	}
	return int64(h.Sum64())
}

// sameCorpus is an error, on all ranks, if they have read different texts.
func sameCorpus(ctx context.Context, c *collective.Comm, text *corpus) error {
	all := make([]int64, c.Size())
	if err := collective.AllGather(ctx, c, []int64{text.digest()}, all); err != nil {
		return err
	}
	for r, d := range all {
		if d != all[0] {
			return fmt.Errorf("rank %d has read another text than rank 0: are the files of their hosts different? --text "+
				"names a folder that is the same", r)
		}
	}
	return nil
}
