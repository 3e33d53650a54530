//go:build !linux

package environ

import "github.com/treerun/treerun/internal/job"

func inherit(string) (*Job, error) { return nil, job.ErrSystem }
