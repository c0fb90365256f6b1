package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// What watches containers: with containerd a shim, which serves a pod; with CRI-O a conmon of each container.
const (
	shims   = "containerd-shim"
	conmons = "conmon"
)

// Checks that a container's program is the child of its pod's shim or of a conmon, and returns that process.
func (w *walker) monitorOf(p pod, id string) (int, error) {
	pid, err := w.pidOf(id)
	if err != nil {
		return 0, err
	}
	monitor := parent(pid)
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", monitor))
	if !strings.Contains(string(name), w.monitor) {
		return 0, fmt.Errorf("the parent %d of %d is no %s: %q", monitor, pid, w.monitor, name)
	}
	if w.monitor == conmons {
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
