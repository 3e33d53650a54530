//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

// restorer is a rank whose state has contents that follow from its version. In each epoch it restores the state, and
// compares all of it: with the contents of the version that Restore returns, or after an error with those from before.
// In each of the first epochs one rank other than origin 0 is killed: at a random moment of Restore if it has the
// state, and else behind it.
//
// A wrong content is an exit with code 5.
func restorer() {
	epochs := flag.Int("epochs", 10, "epochs in which a rank is killed")
	elements := flag.Int("elements", 4<<20, "of each of the two slices")
	seed := flag.Uint64("seed", 1, "chooses the moments")
	flag.Parse()
	s := &restored{version: -1, floats: make([]float32, *elements), numbers: make([]int64, *elements)}
	s.fill()
	err := s.run(context.Background(), *epochs, *seed)
	switch {
	case errors.Is(err, errWrongState):
		fmt.Println(err)
		os.Exit(5)
	case err != nil:
		fmt.Println(err)
		os.Exit(3)
	}
}

// restored is the state.
type restored struct {
	version int
	floats  []float32
	numbers []int64
}

var errWrongState = errors.New("the state is wrong")

// fill gives the state the contents of its version.
func (s *restored) fill() {
	for i := range s.floats {
		s.floats[i], s.numbers[i] = float32(i%1000+s.version), int64(i)<<20+int64(s.version)
	}
}

// check compares the state with the contents of its version.
func (s *restored) check(when string) error {
	for i := range s.floats {
		if s.floats[i] != float32(i%1000+s.version) || s.numbers[i] != int64(i)<<20+int64(s.version) {
			return fmt.Errorf("%w %s: version %d, element %d", errWrongState, when, s.version, i)
		}
	}
	return nil
}

func (s *restored) run(ctx context.Context, epochs int, seed uint64) error {
	for w, err := range rank.Worlds(ctx) {
		if err != nil {
			return err
		}
		err = s.epoch(w.Context(), w, epochs, rand.New(rand.NewPCG(seed, uint64(w.Epoch()))))
		if err == nil {
			fmt.Println("done", w.Origin(), "with version", s.version)
			return w.Close()
		}
		if !rank.Again(err) {
			return err
		}
	}
	return nil
}

// epoch restores the state, and changes it.
func (s *restored) epoch(ctx context.Context, w *rank.World, epochs int, rng *rand.Rand) (err error) {
	c, err := collective.New(ctx, w)
	if err != nil {
		return err
	}
	idle, err := c.Split(ctx, 0, c.Rank())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, idle.Close(), c.Close()) }() // whose failure only this Close returns
	if w.Epoch() == 0 && w.Origin() == 0 {
		s.version = 0
		s.fill()
	}
	dies, within := w.Epoch() < epochs && w.Origin() == 1+w.Epoch()%(w.Size()-1), rng.IntN(20)
	if dies && s.version >= 0 {
		time.AfterFunc(time.Duration(within)*time.Millisecond, die)
	}
	old := s.version
	s.version, err = collective.Restore(ctx, c, s.version, s.floats, s.numbers)
	if err := s.check("after Restore"); err != nil {
		return err
	}
	switch {
	case err != nil && s.version != old:
		return fmt.Errorf("%w: version %d after an error, %d before", errWrongState, s.version, old)
	case err != nil:
		fmt.Println("kept version", old, "after:", err)
		return err
	case s.version > old:
		fmt.Println("restored version", s.version, "over", old, "lost", w.Lost(), slices.Contains(w.Joined(), w.Origin()))
	}
	s.version++
	s.fill()
	if dies {
		die()
	}
	if w.Epoch() < epochs {
		<-ctx.Done() // the loss of that rank
		return rank.ErrAgain
	}
	return nil
}

// die ends this process at once.
func die() {
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
