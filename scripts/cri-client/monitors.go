package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// What watches containers: with containerd a shim, which serves a pod; with CRI-O a conmon of each container, or a shim of each
// container if the runtime's type is vm.
const (
	shims   = "containerd-shim"
	conmons = "conmon"
	vms     = "vm"
)

// Returns whether the engine is CRI-O.
func (w *walker) isCRIO() bool { return w.monitor != shims }

// Returns a command that runs another one and stays for a moment. For the type vm, CRI-O does not wait for the output of an exec
// that has ended.
func staying(words []string) []string {
	return append([]string{"sh", "-c", `"$@"; code=$?; sleep 0.2; exit $code`, "sh"}, words...)
}

// Returns the reason that the engine gives when a container was out of memory. For the type vm, CRI-O listens to no events, and
// looks for a file in the bundle instead.
func (w *walker) outOfMemory() string {
	if w.monitor == vms {
		return "Error"
	}
	return "OOMKilled"
}

// Checks that a container's program is the child of its pod's shim or of a conmon, and returns that process.
func (w *walker) monitorOf(p pod, id string) (int, error) {
	pid, err := w.pidOf(id)
	if err != nil {
		return 0, err
	}
	monitor := parent(pid)
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", monitor))
	program := w.monitor
	if program == vms {
		program = shims
	}
	if !strings.Contains(string(name), program) {
		return 0, fmt.Errorf("the parent %d of %d is no %s: %q", monitor, pid, program, name)
	}
	if w.isCRIO() {
		if !strings.Contains(string(name), id) {
			return 0, fmt.Errorf("the parent %d of %d is another container's: %q", monitor, pid, name)
		}
		return monitor, nil
	}
	own, err := w.pidOfPod(p)
	return monitor, errors.Join(err, wanted(monitor, parent(own)))
}

// Kills what watches a container. The shim takes the container with it; without conmon the container goes on, and the
// engine can still stop it.
func (w *walker) killMonitor(p pod, id string) error {
	pid, err := w.pidOf(id)
	if err != nil {
		return err
	}
	monitor, err := w.monitorOf(p, id)
	if err != nil {
		return err
	}
	if err := syscall.Kill(monitor, syscall.SIGKILL); err != nil {
		return err
	}
	if w.monitor == conmons {
		status, err := w.status(id)
		if err := errors.Join(err, wanted(status.GetState(), cri.ContainerState_CONTAINER_RUNNING), w.stop(id, 0)); err != nil {
			return err
		}
	}
	if _, err := w.ended(id); err != nil {
		return err
	}
	return w.until("the program's end", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
}
