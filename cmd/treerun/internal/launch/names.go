package launch

import "fmt"

// members returns how many processes the job has: ranks and aggregators.
func (j *Job) members() int { return j.Size + j.Aggregators }

// nameOf names a rank or an aggregator for people.
func (j *Job) nameOf(r int) string {
	if r < j.Size {
		return fmt.Sprintf("rank %d", r)
	}
	return fmt.Sprintf("aggregator %d", r-j.Size)
}

// tagOf returns what stands in front of an aggregator's lines; "" for a rank, whose
// number does.
func (j *Job) tagOf(r int) string {
	if r < j.Size {
		return ""
	}
	return fmt.Sprintf("agg %d", r-j.Size)
}

// folderOf names the folder for what a rank or an aggregator prints.
func (j *Job) folderOf(r int) string {
	if r < j.Size {
		return rankFolder(r, j.Size)
	}
	return fmt.Sprintf("agg.%d", r-j.Size)
}
