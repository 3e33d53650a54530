package waits

import "time"

// SetPredict sets the function that returns the predicted time of the call that this rank waits for, 0 where there is
// none. The goroutine that publishes calls it.
func (w *Wait) SetPredict(predict func() time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.foretell = predict
}

// predict returns the predicted time of the call in, which it retains for the next waits in that call.
func predict(w *Wait, in string) time.Duration {
	w.mu.Lock()
	foretell, last := w.foretell, w.predicted
	w.mu.Unlock()
	if foretell == nil || last.in == in {
		return last.usual
	}
	last = publication{in: in, usual: foretell()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.predicted = last
	return last.usual
}
