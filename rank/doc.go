// Package rank makes a process part of a job: it determines the rank of the process, finds the other ranks, and reports
// the loss of one of them at once.
//
//	w, err := rank.Init(ctx)
//	if err != nil { ... }
//	defer w.Close()
//	fmt.Printf("rank %d of %d\n", w.Rank(), w.Size())
//
// # Where the job comes from
//
// Init takes the first of these:
//
//   - the job file that treerun's launcher hands to every rank on an inherited
//     descriptor (TREERUN_JOB_FD);
//   - the environment of another launcher: TREERUN_RANK and TREERUN_SIZE,
//     torchrun, Open MPI, PMI (MPICH, Intel MPI), Slurm, LeaderWorkerSet,
//     JobSet. Where these variables are not enough, the ranks need the address
//     at which rank 0 listens, TREERUN_SEED or MASTER_ADDR and MASTER_PORT.
//     They need a key that all of them can read: TREERUN_KEY_FILE,
//     or the user's own in the user's configuration directory, which is created
//     when the seed is a loopback address;
//   - neither: a world of one rank, without sockets and goroutines.
//
// # How the ranks find each other
//
// Each rank listens at one TCP port: at the loopback address when all ranks are on one host, else at all addresses. It
// offers others the addresses that suit them best, and they keep the first at which it proves itself. A connection
// whose peer does not prove within a second that it knows the job's secret is closed. hashicorp/memberlist carries the
// membership: the ranks and their addresses. Blobs travel over connections between the ranks themselves, in ceil(log2
// n) steps. Init logs the missing ranks after a wait of ten seconds (WithLogger); pairs that cannot connect are listed
// by rank 0.
//
// # How failures become known
//
// The launcher reports how a rank ended. Without a launcher, or if it does not know, the end of a rank's connections
// shows it, and the ranks pass the news on; a rank on another host that sends nothing for the peer timeout is lost as
// well. A rank that has called Close has not failed.
//
// The package does not start processes and moves no tensors. Programs import it; package collective does not, and takes
// a *World as an interface.
package rank
