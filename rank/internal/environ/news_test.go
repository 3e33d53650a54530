//go:build linux

package environ

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/treerun/treerun/internal/job"
)

// A rank finds the news that the launcher writes into the memory file, in order; those that were written over meanwhile
// are left out.
func TestNews(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(0); err != nil {
		t.Fatal(err)
	}
	news, _, _ := mark(file, 0)
	if news == nil {
		t.Fatal("there is no page")
	}
	count := uint32(0)
	publish := func(rank int) {
		m := &job.Message{Kind: job.Exited, Epoch: 2, Rank: rank, Signal: 9}
		at := job.NewsAt + job.NewsBytes*int64(count%job.NewsRing)
		count++
		if _, err := file.WriteAt(job.AppendNews(nil, m, count), at); err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(binary.NativeEndian.AppendUint32(nil, count), job.NewsCountAt); err != nil {
			t.Fatal(err)
		}
	}
	if n := news.Count(); n != 0 {
		t.Errorf("%d news at the beginning", n)
	}
	publish(1)
	publish(2)
	got, n := news.Since(0)
	if len(got) != 2 || n != 2 || got[0].Rank != 1 || got[1].Rank != 2 || got[1].Epoch != 2 || got[1].Signal != 9 {
		t.Errorf("%d news: %+v", n, got)
	}
	if got, n = news.Since(1); len(got) != 1 || n != 2 || got[0].Rank != 2 {
		t.Errorf("after the first: %d news: %+v", n, got)
	}
	for r := range 200 {
		publish(r)
	}
	if got, n = news.Since(2); len(got) != job.NewsRing || n != 202 || got[0].Rank != 200-job.NewsRing {
		t.Errorf("after 200 more: %d of %d news, the first of rank %d", len(got), n, got[0].Rank)
	}
	if got, n := (*News)(nil).Since(0); got != nil || n != 0 {
		t.Errorf("no page: %d news: %+v", n, got)
	}
}
