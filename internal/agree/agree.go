// Package agree exchanges the outcomes of a step that ranks take together: the result of each rank, or the reason why
// it could not take the step. A step that has failed on one rank so fails on all, with the same error.
package agree

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/treerun/treerun/internal/strict"
)

// message is the outcome of a rank: a value, or the reason why the rank could not take the step.
type message[T any] struct {
	Failed string
	Value  T
}

// Failed reports the ranks that could not take a step. It is the same on all ranks, except for Own.
type Failed struct {
	Rank int    // the lowest failed rank
	Why  string // reason of that rank
	Own  error  // this rank's own error, nil if it has not failed
	text string
}

// Error returns the list of the ranks with their reasons.
func (f *Failed) Error() string { return f.text }

// Unwrap returns this rank's own error.
func (f *Failed) Unwrap() error { return f.Own }

const (
	maxFailed = 1000 // of the reason of one rank
	maxListed = 32   // ranks that an error lists
)

// Exchange sends this rank's result of a step to all ranks, failed if it could not take the step, and returns the
// results of all, by rank. Ranks with equal results may share the referenced data. If any rank has failed, or its
// message cannot be decoded, the error on all ranks is a *Failed. number returns the number of the i-th rank for
// messages; if nil, it is i. size is the size of the set, 0 if the caller checks it. gather is an AllGather.
func Exchange[T any](ctx context.Context, gather func(ctx context.Context, blob []byte) ([][]byte, error), size int,
	number func(i int) int, mine T, failed error) ([]T, error) {
	t := message[T]{Value: mine}
	if failed != nil {
		t = message[T]{Failed: cmp.Or(failed.Error(), "no reason")}
	}
	blobs, err := gather(ctx, strict.Marshal(&t))
	switch {
	case err != nil:
		return nil, errors.Join(failed, fmt.Errorf("exchange: %w", err))
	case len(blobs) == 0 || size > 0 && len(blobs) != size:
		return nil, errors.Join(failed, fmt.Errorf("the exchange gave %d blobs for %d ranks", len(blobs), size))
	}
	return open[T](blobs, number, failed)
}

// open decodes the messages of all ranks.
func open[T any](blobs [][]byte, number func(i int) int, own error) ([]T, error) {
	values := make([]T, len(blobs))
	f := &Failed{Own: own}
	var all []string
	why := ""
	for i, b := range blobs {
		if i > 0 && bytes.Equal(b, blobs[i-1]) {
			values[i] = values[i-1] // most ranks send the same message
		} else {
			values[i], why = read[T](b)
		}
		if why == "" {
			continue
		}
		if number != nil {
			i = number(i)
		}
		if all = append(all, fmt.Sprintf("rank %d: %s", i, why)); len(all) == 1 {
			f.Rank, f.Why = i, why
		}
	}
	if all == nil {
		return values, nil
	}
	if more := len(all) - maxListed; more > 0 {
		all = append(all[:maxListed], fmt.Sprintf("and %d more", more))
	}
	f.text = strings.Join(all, "; ")
	return nil, f
}

// read returns the result of a rank, or the reason for its failure.
func read[T any](blob []byte) (value T, why string) {
	var t message[T]
	if err := strict.Unmarshal(blob, &t); err != nil {
		return value, fmt.Sprintf("its message cannot be read: %v (hint: all ranks run the same build, and make the "+
			"same calls)", err)
	}
	return t.Value, strict.Printable(t.Failed, maxFailed)
}

// Refusal returns the reason for which the rank with this blob of an Exchange has failed, "" if it has not.
func Refusal(blob []byte) string {
	_, why := read[msgpack.RawMessage](blob)
	return why
}
