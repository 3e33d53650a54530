package output

import "sync"

// device is what a Sink writes to; two Sinks may share it. Pieces are written
// in the order in which they came, by a goroutine that lives while there are
// any. So a reader who does not read holds up that goroutine and the ranks, and
// never the one that watches over the job.
type device struct {
	terminal bool
	dirty    bool // a progress line stands in the current line of the terminal; of the goroutine

	mu      sync.Mutex
	queue   []*piece // at most one of each stream, and treerun's own lines
	current *piece   // being written, or nil
	writing bool     // the goroutine lives
	gaveUp  bool     // pieces of ranks are dropped
	slow    bool     // treerun has waited in vain, and there is more to write ever since
}

// piece is what is written at a time.
type piece struct {
	sink *Sink
	own  bool // treerun's own, not a rank's
	text []byte
	done chan struct{} // closed when it has been written or dropped
	lost bool          // dropped; the write of it may still go on
}

// add puts a piece into the queue, and tells whether that is slow.
func (d *device) add(p *piece) (slow bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gaveUp && !p.own {
		p.drop()
		return d.slow
	}
	d.queue = append(d.queue, p)
	if !d.writing {
		d.writing = true
		go d.run()
	}
	return d.slow
}

func (d *device) setSlow() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slow = d.writing
}

func (d *device) run() {
	for p := d.next(); p != nil; p = d.next() {
		p.sink.put(p.text)
	}
}

// next ends the current piece and takes the next one; nil ends the goroutine.
func (d *device) next() *piece {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current != nil {
		close(d.current.done)
		d.current = nil
	}
	if len(d.queue) == 0 {
		d.queue, d.writing, d.slow = nil, false, false
		return nil
	}
	d.current, d.queue = d.queue[0], d.queue[1:]
	return d.current
}

func (d *device) giveUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gaveUp = true
	var own []*piece
	for _, p := range d.queue {
		if p.own {
			own = append(own, p)
		} else {
			p.drop()
		}
	}
	d.queue = own
	if c := d.current; c != nil && !c.own {
		c.drop() // the goroutine waits in its write: how much the file took is not known
		d.current = nil
	}
}

// drop gives a piece up. The caller holds the lock of the device.
func (p *piece) drop() {
	p.lost = true
	p.sink.dropped += len(p.text)
	close(p.done)
}
