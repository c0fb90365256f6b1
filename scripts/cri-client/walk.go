package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A run through the cases, which prints one line per case and counts failures.
type walker struct {
	*client
	passed, failed int
}

func walk(o options) {
	w := &walker{client: connect(o)}
	for _, part := range []func(){w.life, w.logs, w.ends, w.kinds, w.many, w.roots, w.deaths} {
		if err := try(part); err != nil {
			// Skips the rest of the part, with the reason.
			w.test("goes_on", func() { check(err) })
		}
	}
	w.test("nothing_is_listed", func() {
		wanted(len(checked(call(w.client, w.ListPodSandbox, &cri.ListPodSandboxRequest{})).Items), 0)
		wanted(len(checked(call(w.client, w.ListContainers, &cri.ListContainersRequest{})).Containers), 0)
	})
	if w.failed > 0 {
		check(fmt.Errorf("%d of %d failed", w.failed, w.passed+w.failed))
	}
}

// Prints the result of a case, which fails if the function panics by `check`.
func (w *walker) test(name string, do func()) bool {
	err := try(do)
	if err == nil {
		w.passed++
		fmt.Printf("test %s::%s ... ok\n", w.engine, name)
		return true
	}
	w.failed++
	fmt.Printf("test %s::%s ... FAILED\n    %v\n", w.engine, name, err)
	return false
}

func wanted[T comparable](got, want T) {
	if got != want {
		check(fmt.Errorf("%.300s instead of %.300s", fmt.Sprint(got), fmt.Sprint(want)))
	}
}

// Waits until the condition holds.
func (w *walker) until(what string, holds func() bool) {
	for end := time.Now().Add(w.patience / 4); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if holds() {
			return
		}
	}
	check(fmt.Errorf("not in time: %s", what))
}

// Runs calls at the same time, each with its number.
func together(count int, do func(at int)) {
	results := make(chan error)
	for at := range count {
		go func() { results <- try(func() { do(at) }) }()
	}
	var all error
	for range count {
		all = errors.Join(all, <-results)
	}
	check(all)
}

// Waits until a container has ended.
func (w *walker) ended(id string) (last *cri.ContainerStatus) {
	w.until("the container's end", func() bool {
		last = w.status(id)
		return last.State == cri.ContainerState_CONTAINER_EXITED
	})
	return last
}

// Starts a container in the pod.
func (c *client) running(p pod, words []string, changes ...containerChange) string {
	id, _ := c.logged(p, words, changes...)
	return id
}

// Starts a container in the pod; also returns the file of its log.
func (c *client) logged(p pod, words []string, changes ...containerChange) (id, log string) {
	config := c.containerConfig(p, words, changes...)
	id = checked(c.create(p, config))
	check(c.start(id))
	return id, filepath.Join(p.config.LogDirectory, config.LogPath)
}

var sleeps = []string{"/bin/sleep", "1000000"}

func shell(script string) []string { return []string{"sh", "-c", script} }

// The life of a pod, call by call.
func (w *walker) life() {
	var p pod
	var id string
	if !w.test("run_pod_sandbox", func() { p = w.runPod(w.podConfig()) }) {
		check(errors.New("no pod"))
	}
	w.test("pod_sandbox_status", func() {
		status := checked(call(w.client, w.PodSandboxStatus, &cri.PodSandboxStatusRequest{PodSandboxId: p.id})).Status
		wanted(status.State, cri.PodSandboxState_SANDBOX_READY)
		if w.isCRIO() {
			wanted(status.RuntimeHandler, "") // CRI-O tells it in lists only
		} else {
			wanted(status.RuntimeHandler, w.handler)
		}
	})
	if !w.test("create_container", func() { id = checked(w.create(p, w.containerConfig(p, sleeps))) }) {
		w.drop(p)
		check(errors.New("no container"))
	}
	w.test("status_created", func() { wanted(w.status(id).State, cri.ContainerState_CONTAINER_CREATED) })
	w.test("start_container", func() { check(w.start(id)) })
	w.test("status_running", func() { wanted(w.status(id).State, cri.ContainerState_CONTAINER_RUNNING) })
	w.execs(id)
	w.test("container_stats", func() {
		// containerd collects statistics from time to time.
		w.until("CPU and memory in the statistics", func() bool {
			answer, err := call(w.client, w.ContainerStats, &cri.ContainerStatsRequest{ContainerId: id})
			return err == nil && answer.Stats.GetCpu().GetUsageCoreNanoSeconds().GetValue() > 0 &&
				answer.Stats.GetMemory().GetWorkingSetBytes().GetValue() > 0
		})
	})
	w.test("pod_sandbox_stats", func() {
		checked(call(w.client, w.PodSandboxStats, &cri.PodSandboxStatsRequest{PodSandboxId: p.id}))
	})
	w.test("update_container_resources", func() {
		limit := &cri.LinuxContainerResources{MemoryLimitInBytes: 64 << 20}
		checked(call(w.client, w.UpdateContainerResources, &cri.UpdateContainerResourcesRequest{ContainerId: id, Linux: limit}))
		wanted(w.memoryLimit(id), "67108864")
	})
	w.test("second_container", func() {
		second := w.running(p, sleeps)
		wanted(w.output(second, "readlink", "/proc/self/ns/ipc"), w.output(id, "readlink", "/proc/self/ns/ipc"))
		w.end(second)
	})
	w.test("stop_container", func() { w.stop(id, 0) })
	w.test("status_exited", func() {
		status := w.status(id)
		wanted(status.State, cri.ContainerState_CONTAINER_EXITED)
		wanted(status.ExitCode, 137)
	})
	w.test("stop_container_again", func() { w.stop(id, 0) })
	w.test("remove_container", func() { w.remove(id) })
	w.test("remove_container_again", func() { w.remove(id) })
	w.test("stop_pod_sandbox", func() { w.stopPod(p) })
	w.test("stop_pod_sandbox_again", func() { w.stopPod(p) })
	w.test("remove_pod_sandbox", func() { w.removePod(p) })
	w.test("pod_with_a_container_is_dropped", func() {
		p := w.runPod(w.podConfig())
		w.running(p, sleeps)
		w.drop(p)
	})
}

// Runs a shell script that is to print and to return this.
func (w *walker) says(id, script, out, errs string, code int32) {
	answer := checked(w.exec(id, 50, shell(script)...))
	wanted(string(answer.Stdout), out)
	wanted(string(answer.Stderr), errs)
	wanted(answer.ExitCode, code)
}

func (w *walker) execs(id string) {
	w.test("exec_sync", func() { w.says(id, "echo out; echo err >&2; exit 3", "out\n", "err\n", 3) })
	w.test("exec_probes", func() {
		for range 30 {
			wanted(checked(w.exec(id, 5, "true")).ExitCode, 0)
		}
	})
	w.test("exec_probes_at_once", func() {
		together(20, func(at int) { w.says(id, fmt.Sprintf("echo %d", at), fmt.Sprintf("%d\n", at), "", 0) })
	})
	w.test("exec_sync_of_nothing", func() {
		if _, err := w.exec(id, 10, "/no/such"); err == nil {
			check(errors.New("no error"))
		}
	})
	w.test("exec_sync_in_time", func() {
		start := time.Now()
		answer, err := w.exec(id, 1, "sleep", "30")
		// containerd answers with an error, CRI-O with an exit code and a message.
		late := err != nil && strings.Contains(err.Error(), "DeadlineExceeded") ||
			err == nil && w.isCRIO() && answer.ExitCode == -1 && strings.Contains(string(answer.Stderr), "timed out")
		if !late || time.Since(start) > 15*time.Second {
			check(fmt.Errorf("after %v: %v %v", time.Since(start), answer, err))
		}
		checked(w.exec(id, 10, "true"))
	})
	w.test("exec_sync_megabyte", func() { w.says(id, "seq 1 160000", lines(160000), "", 0) })
}

// Returns the numbers from 1, a line each.
func lines(count int) string {
	var all strings.Builder
	for at := range count {
		fmt.Fprintln(&all, at+1)
	}
	return all.String()
}

// Returns a container's memory limit, from its cgroup.
func (w *walker) memoryLimit(id string) string {
	file := ""
	for line := range strings.Lines(string(checked(os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", w.pidOf(id)))))) {
		if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); parts[1] == "memory" {
			file = "/sys/fs/cgroup/memory" + parts[2] + "/memory.limit_in_bytes"
		} else if parts[1] == "" && file == "" {
			file = "/sys/fs/cgroup" + parts[2] + "/memory.max"
		}
	}
	return strings.TrimSpace(string(checked(os.ReadFile(file))))
}

var logLine = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\S+ (stdout|stderr) ([FP]) (.*)$`)

// Returns the texts of the streams in a CRI log.
func readLog(file string) (out, err string) {
	text, _ := os.ReadFile(file)
	var texts = map[string]*strings.Builder{"stdout": {}, "stderr": {}}
	for _, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		if parts := logLine.FindStringSubmatch(line); parts != nil {
			texts[parts[1]].WriteString(parts[3])
			if parts[2] == "F" {
				texts[parts[1]].WriteString("\n")
			}
		}
	}
	return texts["stdout"].String(), texts["stderr"].String()
}

func (w *walker) logs() {
	p := w.runPod(w.podConfig())
	// A container that ends, and what its log has then.
	says := func(name, script, out, errs string, changes ...containerChange) {
		w.test(name, func() {
			id, log := w.logged(p, shell(script), changes...)
			w.ended(id)
			var gotOut, gotErrs string
			late := try(func() {
				w.until("all lines", func() bool {
					gotOut, gotErrs = readLog(log)
					return strings.ReplaceAll(gotOut, "\r", "") == out && gotErrs == errs
				})
			})
			if late != nil {
				check(fmt.Errorf("%w: %d and %d bytes, not %d and %d", late, len(gotOut), len(gotErrs), len(out), len(errs)))
			}
		})
	}
	says("log", "echo out; echo err >&2", "out\n", "err\n")
	says("log_megabyte", "seq 1 160000", lines(160000), "")
	says("log_of_a_terminal", "tty; sleep 0.5; echo err >&2", "/dev/pts/0\nerr\n", "", func(c *cri.ContainerConfig) { c.Tty = true })
	// Both streams, a megabyte each, complete and in order; the program ends at once.
	says("log_is_complete", "seq 1 160000 >&2 & seq 1 160000; wait", lines(160000), lines(160000))
	// CRI-O's ReopenContainerLog does nothing for the type vm.
	if w.monitor != vms {
		w.test("reopen_container_log", func() {
			id, log := w.logged(p, shell("i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done"))
			w.until("a line", func() bool { out, _ := readLog(log); return out != "" })
			check(os.Rename(log, log+".1"))
			checked(call(w.client, w.ReopenContainerLog, &cri.ReopenContainerLogRequest{ContainerId: id}))
			w.until("lines after", func() bool { out, _ := readLog(log); return strings.Count(out, "\n") > 5 })
			w.stop(id, 0)
			before, _ := readLog(log + ".1")
			after, _ := readLog(log)
			wanted(before+after, lines(strings.Count(before+after, "\n")))
		})
	}
	w.test("logs_pod_drop", func() { w.drop(p) })
}

// Kills the processes that manage a pod.
func (w *walker) deaths() {
	p := w.runPod(w.podConfig())
	id := w.running(p, sleeps)
	name := "one_shim_a_pod"
	if w.isCRIO() {
		name = "one_monitor_a_container"
	}
	w.test(name, func() { w.monitorOf(p, id) })
	if w.restart != "" {
		w.test("containerd_restarts", func() {
			if text, err := exec.Command(w.restart).CombinedOutput(); err != nil {
				check(fmt.Errorf("%w: %s", err, text))
			}
			w.until("an answer", func() bool {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				answer, err := w.Status(ctx, &cri.StatusRequest{})
				if err != nil {
					return false
				}
				for _, condition := range answer.Status.Conditions {
					if condition.Type == cri.RuntimeReady && !condition.Status {
						return false
					}
				}
				return true
			})
		})
		w.test("running_after_restart", func() { wanted(w.status(id).State, cri.ContainerState_CONTAINER_RUNNING) })
		w.test("exec_after_restart", func() { w.output(id, "true") })
		w.test("another_container_after_restart", func() { w.end(w.running(p, sleeps)) })
	}
	if w.monitor == vms {
		// CRI-O does not call the shim's `delete`: the container goes on, and CRI-O cannot stop it.
		w.drop(p)
		return
	}
	w.test("killed_shim", func() { w.killMonitor(p, id) })
	w.test("killed_shim_pod_drop", func() { w.drop(p) })
}

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
	return append(append(shell(`"$@"; code=$?; sleep 0.2; exit $code`), "sh"), words...)
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
func (w *walker) monitorOf(p pod, id string) int {
	pid := w.pidOf(id)
	monitor := parent(pid)
	name := string(checked(os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", monitor))))
	program := w.monitor
	if program == vms {
		program = shims
	}
	if !strings.Contains(name, program) {
		check(fmt.Errorf("the parent %d of %d is no %s: %q", monitor, pid, program, name))
	}
	if !w.isCRIO() {
		wanted(monitor, parent(w.pidOfPod(p)))
	} else if !strings.Contains(name, id) {
		check(fmt.Errorf("the parent %d of %d is another container's: %q", monitor, pid, name))
	}
	return monitor
}

// Kills what watches a container. The shim takes the container with it; without conmon the container goes on, and the
// engine can still stop it.
func (w *walker) killMonitor(p pod, id string) {
	pid := w.pidOf(id)
	check(syscall.Kill(w.monitorOf(p, id), syscall.SIGKILL))
	if w.monitor == conmons {
		wanted(w.status(id).State, cri.ContainerState_CONTAINER_RUNNING)
		w.stop(id, 0)
	}
	w.ended(id)
	w.until("the program's end", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
}

// Returns the parent of a process.
func parent(pid int) int {
	_, rest, _ := strings.Cut(string(checked(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))), ") ")
	var state string
	var parent int
	checked(fmt.Sscan(rest, &state, &parent))
	return parent
}
