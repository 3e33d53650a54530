package waits

import (
	"errors"
	"slices"
)

// SetLeave sets the function that CloseAll calls to end the use of the scope.
func (w *Wait) SetLeave(leave func() error) {
	w.job.mu.Lock()
	defer w.job.mu.Unlock()
	w.leave = leave
}

// CloseAll ends the use of the scopes that are still open, the latest first, and returns their joined errors.
func (j *Job) CloseAll() error {
	j.mu.Lock()
	open := slices.Clone(j.waits)
	j.mu.Unlock()
	var all error
	for _, w := range slices.Backward(open) {
		j.mu.Lock()
		leave := w.leave
		j.mu.Unlock()
		if leave != nil {
			all = errors.Join(all, leave())
		}
	}
	return all
}

// Failed reports a failure of the scope that no call but Close has returned.
func (w *Wait) Failed(err error) {
	if w != nil && w.job.Failed != nil {
		w.job.Failed(err)
	}
}
