package tcp

import (
	"testing"
	"time"
)

// Long yields one after another make a core crowded for a while. One among many short ones does not, and a core that is
// crowded again and again has the rank look for another.
func TestCrowd(t *testing.T) {
	const short, long = time.Microsecond, 3 * time.Millisecond
	now := time.Now()
	var c crowd
	yield := func(took time.Duration) (widen bool) {
		widen = c.add(now, took)
		now = now.Add(took)
		return widen
	}
	for range 10 {
		yield(long)
		for range forLong {
			yield(short)
		}
		if c.isAt(now) {
			t.Fatal("the core is crowded after one long yield")
		}
	}
	yield(long)
	yield(short)
	if yield(long) || !c.isAt(now) || !c.isAt(now.Add((crowdedFor-1)*long)) {
		t.Error("the core is not crowded after two long yields")
	}
	for i := 2; i <= widenAfter; i++ {
		now = now.Add(crowdedFor * long)
		if c.isAt(now) {
			t.Fatal("the core is crowded for ever")
		}
		if widen := yield(long); widen != (i == widenAfter) || !c.isAt(now) {
			t.Errorf("attempt %d: look for another core: %v, crowded: %v", i, widen, c.isAt(now))
		}
	}
	now = now.Add(crowdedFor * long)
	for range retryScore {
		yield(short)
	}
	if c.isAt(now) || c != (crowd{}) {
		t.Errorf("after short yields: %+v", c)
	}
}
