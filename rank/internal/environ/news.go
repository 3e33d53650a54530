package environ

import (
	"sync/atomic"

	"github.com/treerun/treerun/internal/job"
)

// News are those that the launcher publishes in memory that it shares with this rank. The nil *News has none. Its
// methods may be called concurrently.
type News struct {
	page  []byte
	count *uint32
}

// Count returns the number of news so far.
func (n *News) Count() uint32 {
	if n == nil {
		return 0
	}
	return atomic.LoadUint32(n.count)
}

// Counter returns the word that has the number of news so far. Read it atomically.
func (n *News) Counter() *uint32 { return n.count }

// Since returns the news after the first seen ones, and the number of all. Those that have been written over are left
// out: messages of the launcher bring them.
func (n *News) Since(seen uint32) (news []*job.Message, count uint32) {
	count = n.Count()
	if count-seen > job.NewsRing {
		seen = count - job.NewsRing
	}
	for ; seen != count; seen++ {
		at := job.NewsAt + job.NewsBytes*int(seen%job.NewsRing)
		if m := job.ParseNews(n.page[at:at+job.NewsBytes], seen+1); m != nil {
			news = append(news, m)
		}
	}
	return news, count
}
