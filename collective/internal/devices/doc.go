// Package devices is the communicator's side of calls on device memory. A Session opens the devices of all ranks of a
// communicator, together and step by step: which rank reads which rank's memory, the plans that rank 0 chooses, staging
// memory, links. It then watches the calls under way, compares those of ranks that share a segment, and gives all back
// at the end. Calls of ranks with a network link are compared by the header of every chunk.
package devices
