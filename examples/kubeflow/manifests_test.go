// Package kubeflow has manifests for Kubeflow's Trainer and its MPI operator. This module of their own has the Go types
// of both projects, by which a test decodes the manifests, so that no user of treerun downloads these.
package kubeflow

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	mpi "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// decode decodes the documents of a manifest into values of their kinds. A field that a type does not have is an error:
// the server would drop it.
func decode(text []byte, kinds map[string]any) error {
	for i, document := range bytes.Split(text, []byte("\n---\n")) {
		var head struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(document, &head); err != nil {
			return err
		}
		v := kinds[head.APIVersion+" "+head.Kind]
		if v == nil {
			return fmt.Errorf("document %d is a %s %s", i, head.APIVersion, head.Kind)
		}
		if err := yaml.UnmarshalStrict(document, v); err != nil {
			return fmt.Errorf("%s: %w", head.Kind, err)
		}
	}
	return nil
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// treerunOf returns the words of the container's command, whose first is treerun.
func treerunOf(c *core.Container) ([]string, error) {
	words := slices.Concat(c.Command, c.Args)
	if len(words) == 0 || words[0] != "treerun" {
		return nil, fmt.Errorf("container %s runs %q, want treerun", c.Name, words)
	}
	return words[1:], nil
}

// checkKey checks that the key file of a command is in a volume of a secret that only the user of the ranks can read.
func checkKey(pod *core.PodSpec, c *core.Container, words []string) error {
	i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "--key-file=") })
	if i < 0 {
		return fmt.Errorf("no --key-file in %q", words)
	}
	for _, m := range c.VolumeMounts {
		if !strings.HasPrefix(strings.TrimPrefix(words[i], "--key-file="), m.MountPath+"/") {
			continue
		}
		for _, v := range pod.Volumes {
			if v.Name == m.Name && v.Secret != nil && v.Secret.DefaultMode != nil && *v.Secret.DefaultMode == 0o400 {
				return nil
			}
		}
	}
	return errors.New("the key file is in no volume of a secret of mode 0400")
}

// The runtime for Kubeflow's Trainer starts a treerun in each pod, which finds the others by the variables of the torch
// policy; a TrainJob of that runtime gives the number of nodes and the program.
func TestTrainer(t *testing.T) {
	var runtime trainer.ClusterTrainingRuntime
	var job trainer.TrainJob
	err := decode(read(t, "trainer.yaml"), map[string]any{
		"trainer.kubeflow.org/v1alpha1 ClusterTrainingRuntime": &runtime, "trainer.kubeflow.org/v1alpha1 TrainJob": &job})
	if err != nil {
		t.Fatal(err)
	}
	if r := job.Spec.RuntimeRef; r.Name != runtime.Name {
		t.Errorf("the job is for the runtime %q, not %q", r.Name, runtime.Name)
	}
	if p := runtime.Spec.MLPolicy; p == nil || p.Torch == nil || p.Torch.NumProcPerNode == nil {
		t.Errorf("without a torch policy and its number of processes treerun gets no variables: %+v", p)
	}
	jobs := runtime.Spec.Template.Spec.ReplicatedJobs
	if len(jobs) != 1 || jobs[0].Name != "node" {
		t.Fatalf("the Trainer wants one job called node: %+v", jobs)
	}
	if step := jobs[0].Template.Labels["trainer.kubeflow.org/trainjob-ancestor-step"]; step != "trainer" {
		t.Errorf("the job has the step %q: the Trainer sets variables of the step trainer only", step)
	}
	pod := &jobs[0].Template.Spec.Template.Spec
	if c := &pod.Containers[0]; c.Name != "node" {
		t.Errorf("the Trainer sets variables of the container node, not %s", c.Name)
	} else if words, err := treerunOf(c); err != nil {
		t.Error(err)
	} else if err := checkKey(pod, c, words); err != nil {
		t.Error(err)
	}
	if tr := job.Spec.Trainer; tr == nil || tr.NumNodes == nil || tr.Command != nil || len(tr.Args) == 0 {
		t.Errorf("the job must give nodes and a program, and leave the command to the runtime: %+v", tr)
	}
}

// In an MPIJob treerun is the mpirun of the launcher, and the workers have an sshd.
func TestMPIJob(t *testing.T) {
	var job mpi.MPIJob
	if err := decode(read(t, "mpijob.yaml"), map[string]any{"kubeflow.org/v2beta1 MPIJob": &job}); err != nil {
		t.Fatal(err)
	}
	specs := job.Spec.MPIReplicaSpecs
	launcher, worker := specs[mpi.MPIReplicaTypeLauncher], specs[mpi.MPIReplicaTypeWorker]
	if launcher == nil || worker == nil || *launcher.Replicas != 1 || job.Spec.SlotsPerWorker == nil {
		t.Fatalf("want one launcher, workers and their slots: %+v", job.Spec)
	}
	if _, err := treerunOf(&launcher.Template.Spec.Containers[0]); err != nil {
		t.Error(err)
	}
	if c := worker.Template.Spec.Containers[0]; !slices.Contains(c.Command, "/usr/sbin/sshd") {
		t.Errorf("the workers run %q, want sshd", c.Command)
	}
	for _, spec := range []*mpi.ReplicaSpec{launcher, worker} {
		home := *spec.Template.Spec.Containers[0].SecurityContext.RunAsUser
		if home != 1000 || job.Spec.SSHAuthMountPath != "/home/mpiuser/.ssh" {
			t.Errorf("user %d has no keys in %s", home, job.Spec.SSHAuthMountPath)
		}
	}
}

// A field that the projects do not have is an error, and so is a value of another type, and another kind.
func TestStrict(t *testing.T) {
	for name, kinds := range map[string]map[string]any{
		"trainer.yaml": {"trainer.kubeflow.org/v1alpha1 ClusterTrainingRuntime": new(trainer.ClusterTrainingRuntime),
			"trainer.kubeflow.org/v1alpha1 TrainJob": new(trainer.TrainJob)},
		"mpijob.yaml": {"kubeflow.org/v2beta1 MPIJob": new(mpi.MPIJob)},
	} {
		text := string(read(t, name))
		for old, change := range map[string]string{"\nspec:\n": "\nspec:\n  nodes: 4\n",
			"restartPolicy: Never": "restartPolicy: [Never]", "\nkind: ": "\nkind: My"} {
			bad := strings.Replace(text, old, change, 1)
			if bad == text {
				t.Errorf("%s has no %q", name, old)
			}
			if err := decode([]byte(bad), kinds); err == nil {
				t.Errorf("%s with %q in place of %q is accepted", name, change, old)
			}
		}
	}
}
