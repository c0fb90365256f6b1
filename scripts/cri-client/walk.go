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
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A run through the cases, which prints one line per case and counts failures.
type walker struct {
	*client
	passed, failed int
}

func walk(o options) error {
	c, err := connect(o)
	if err != nil {
		return err
	}
	w := &walker{client: c}
	for _, part := range []func() error{w.life, w.logs, w.ends, w.kinds, w.many, w.roots, w.deaths} {
		if err := part(); err != nil {
			// Skips the rest of the part, with the reason.
			w.test("goes_on", func() error { return err })
		}
	}
	w.test("nothing_is_listed", w.nothing)
	if w.failed > 0 {
		return fmt.Errorf("%d of %d failed", w.failed, w.passed+w.failed)
	}
	return nil
}

// Prints the result of a case.
func (w *walker) test(name string, do func() error) bool {
	err := do()
	if err == nil {
		w.passed++
		fmt.Printf("test %s::%s ... ok\n", w.engine, name)
		return true
	}
	w.failed++
	fmt.Printf("test %s::%s ... FAILED\n    %v\n", w.engine, name, err)
	return false
}

func wanted[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("%v instead of %v", got, want)
	}
	return nil
}

// Waits until the condition holds.
func (w *walker) until(what string, holds func() bool) error {
	for end := time.Now().Add(w.patience / 4); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if holds() {
			return nil
		}
	}
	return fmt.Errorf("not in time: %s", what)
}

// Waits until a container has ended.
func (w *walker) ended(id string) (*cri.ContainerStatus, error) {
	var last *cri.ContainerStatus
	var err error
	late := w.until("the container's end", func() bool {
		last, err = w.status(id)
		return err != nil || last.State == cri.ContainerState_CONTAINER_EXITED
	})
	return last, errors.Join(err, late)
}

// Starts a container in the pod.
func (w *walker) running(p pod, words []string, change ...func(*cri.ContainerConfig)) (string, *cri.ContainerConfig, error) {
	config := w.containerConfig(p, words, change...)
	id, err := w.create(p, config)
	if err == nil {
		err = w.start(id)
	}
	return id, config, err
}

var sleeps = []string{"sleep", "1000000"}

// The life of a pod, call by call.
func (w *walker) life() error {
	var p pod
	var id string
	if !w.test("run_pod_sandbox", func() (err error) { p, err = w.runPod(w.podConfig()); return }) {
		return errors.New("no pod")
	}
	w.test("pod_sandbox_status", func() error {
		ctx, cancel := w.in()
		defer cancel()
		answer, err := w.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: p.id})
		if err != nil {
			return err
		}
		handler := w.handler
		if w.isCRIO() {
			handler = "" // CRI-O tells it in lists only
		}
		return errors.Join(wanted(answer.Status.State, cri.PodSandboxState_SANDBOX_READY), wanted(answer.Status.RuntimeHandler, handler))
	})
	config := w.containerConfig(p, sleeps)
	if !w.test("create_container", func() (err error) { id, err = w.create(p, config); return }) {
		return errors.Join(errors.New("no container"), w.drop(p))
	}
	w.test("status_created", func() error {
		status, err := w.status(id)
		if err != nil {
			return err
		}
		return wanted(status.State, cri.ContainerState_CONTAINER_CREATED)
	})
	w.test("start_container", func() error { return w.start(id) })
	w.test("status_running", func() error {
		status, err := w.status(id)
		if err != nil {
			return err
		}
		return wanted(status.State, cri.ContainerState_CONTAINER_RUNNING)
	})
	w.execs(id)
	w.test("container_stats", func() error {
		// containerd collects statistics from time to time.
		return w.until("CPU and memory in the statistics", func() bool {
			ctx, cancel := w.in()
			defer cancel()
			answer, err := w.ContainerStats(ctx, &cri.ContainerStatsRequest{ContainerId: id})
			return err == nil && answer.Stats.GetCpu().GetUsageCoreNanoSeconds().GetValue() > 0 &&
				answer.Stats.GetMemory().GetWorkingSetBytes().GetValue() > 0
		})
	})
	w.test("pod_sandbox_stats", func() error {
		ctx, cancel := w.in()
		defer cancel()
		_, err := w.PodSandboxStats(ctx, &cri.PodSandboxStatsRequest{PodSandboxId: p.id})
		return err
	})
	w.test("update_container_resources", func() error {
		ctx, cancel := w.in()
		defer cancel()
		limit := &cri.LinuxContainerResources{MemoryLimitInBytes: 64 << 20}
		if _, err := w.UpdateContainerResources(ctx, &cri.UpdateContainerResourcesRequest{ContainerId: id, Linux: limit}); err != nil {
			return err
		}
		got, err := w.memoryLimit(id)
		return errors.Join(err, wanted(got, "67108864"))
	})
	w.test("second_container", func() error {
		second, _, err := w.running(p, sleeps)
		if err != nil {
			return err
		}
		first, err := w.output(id, "readlink", "/proc/self/ns/ipc")
		if err != nil {
			return err
		}
		other, err := w.output(second, "readlink", "/proc/self/ns/ipc")
		return errors.Join(err, wanted(other, first), w.stop(second, 0), w.remove(second))
	})
	w.test("stop_container", func() error { return w.stop(id, 0) })
	w.test("status_exited", func() error {
		status, err := w.status(id)
		if err != nil {
			return err
		}
		return errors.Join(wanted(status.State, cri.ContainerState_CONTAINER_EXITED), wanted(status.ExitCode, 137))
	})
	w.test("stop_container_again", func() error { return w.stop(id, 0) })
	w.test("remove_container", func() error { return w.remove(id) })
	w.test("remove_container_again", func() error { return w.remove(id) })
	w.test("stop_pod_sandbox", func() error { return w.stopPod(p) })
	w.test("stop_pod_sandbox_again", func() error { return w.stopPod(p) })
	w.test("remove_pod_sandbox", func() error { return w.removePod(p) })
	w.test("pod_with_a_container_is_dropped", func() error {
		p, err := w.runPod(w.podConfig())
		if err != nil {
			return err
		}
		_, _, err = w.running(p, sleeps)
		return errors.Join(err, w.drop(p))
	})
	return nil
}

func (w *walker) execs(id string) {
	w.test("exec_sync", func() error {
		answer, err := w.exec(id, 10, "sh", "-c", "echo out; echo err >&2; exit 3")
		if err != nil {
			return err
		}
		return errors.Join(wanted(string(answer.Stdout), "out\n"), wanted(string(answer.Stderr), "err\n"), wanted(answer.ExitCode, 3))
	})
	w.test("exec_probes", func() error {
		for range 30 {
			answer, err := w.exec(id, 5, "true")
			if err != nil {
				return err
			}
			if answer.ExitCode != 0 {
				return fmt.Errorf("exit code %d", answer.ExitCode)
			}
		}
		return nil
	})
	w.test("exec_probes_at_once", func() error {
		results := make(chan error)
		for at := range 20 {
			go func() {
				answer, err := w.exec(id, 20, "sh", "-c", fmt.Sprintf("echo %d", at))
				if err == nil {
					err = wanted(string(answer.Stdout), fmt.Sprintf("%d\n", at))
				}
				results <- err
			}()
		}
		var all error
		for range 20 {
			all = errors.Join(all, <-results)
		}
		return all
	})
	w.test("exec_sync_of_nothing", func() error {
		if _, err := w.exec(id, 10, "/no/such"); err == nil {
			return errors.New("no error")
		}
		return nil
	})
	w.test("exec_sync_in_time", func() error {
		start := time.Now()
		answer, err := w.exec(id, 1, "sleep", "30")
		// containerd answers with an error, CRI-O with an exit code and a message.
		late := err != nil && strings.Contains(err.Error(), "DeadlineExceeded") ||
			err == nil && w.isCRIO() && answer.ExitCode == -1 && strings.Contains(string(answer.Stderr), "timed out")
		if !late || time.Since(start) > 15*time.Second {
			return fmt.Errorf("after %v: %v %v", time.Since(start), answer, err)
		}
		_, err = w.exec(id, 10, "true")
		return err
	})
	w.test("exec_sync_megabyte", func() error {
		answer, err := w.exec(id, 20, "sh", "-c", "seq 1 160000")
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(string(answer.Stdout)), "\n")
		return errors.Join(wanted(len(lines), 160000), wanted(lines[len(lines)-1], "160000"))
	})
}

// Returns a container's memory limit, from its cgroup.
func (w *walker) memoryLimit(id string) (string, error) {
	pid, err := w.pidOf(id)
	if err != nil {
		return "", err
	}
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	file := ""
	for _, line := range strings.Split(string(groups), "\n") {
		if parts := strings.SplitN(line, ":", 3); len(parts) == 3 {
			switch parts[1] {
			case "memory":
				file = "/sys/fs/cgroup/memory" + parts[2] + "/memory.limit_in_bytes"
			case "":
				if file == "" {
					file = "/sys/fs/cgroup" + parts[2] + "/memory.max"
				}
			}
		}
	}
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
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

func (w *walker) logs() error {
	p, err := w.runPod(w.podConfig())
	if err != nil {
		return err
	}
	file := func(config *cri.ContainerConfig) string { return filepath.Join(p.config.LogDirectory, config.LogPath) }
	w.test("log", func() error {
		id, config, err := w.running(p, []string{"sh", "-c", "echo out; echo err >&2"})
		if err != nil {
			return err
		}
		if _, err := w.ended(id); err != nil {
			return err
		}
		return w.until("both lines", func() bool {
			out, err := readLog(file(config))
			return out == "out\n" && err == "err\n"
		})
	})
	w.test("log_megabyte", func() error {
		id, config, err := w.running(p, []string{"sh", "-c", "seq 1 160000"})
		if err != nil {
			return err
		}
		if _, err := w.ended(id); err != nil {
			return err
		}
		return w.until("all lines", func() bool {
			out, _ := readLog(file(config))
			lines := strings.Split(strings.TrimSpace(out), "\n")
			return len(lines) == 160000 && lines[159999] == "160000"
		})
	})
	w.test("log_of_a_terminal", func() error {
		id, config, err := w.running(p, []string{"sh", "-c", "tty; sleep 0.5; echo err >&2"}, func(c *cri.ContainerConfig) { c.Tty = true })
		if err != nil {
			return err
		}
		if _, err := w.ended(id); err != nil {
			return err
		}
		return w.until("both lines", func() bool {
			out, err := readLog(file(config))
			return strings.ReplaceAll(out, "\r", "") == "/dev/pts/0\nerr\n" && err == ""
		})
	})
	reopens := w.test
	if w.monitor == vms {
		// CRI-O's ReopenContainerLog does nothing for this type.
		reopens = func(string, func() error) bool { return true }
	}
	reopens("reopen_container_log", func() error {
		id, config, err := w.running(p, []string{"sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done"})
		if err != nil {
			return err
		}
		log := file(config)
		if err := w.until("a line", func() bool { out, _ := readLog(log); return out != "" }); err != nil {
			return err
		}
		if err := os.Rename(log, log+".1"); err != nil {
			return err
		}
		ctx, cancel := w.in()
		defer cancel()
		if _, err := w.ReopenContainerLog(ctx, &cri.ReopenContainerLogRequest{ContainerId: id}); err != nil {
			return err
		}
		if err := w.until("lines after", func() bool { out, _ := readLog(log); return strings.Count(out, "\n") > 5 }); err != nil {
			return err
		}
		if err := w.stop(id, 0); err != nil {
			return err
		}
		before, _ := readLog(log + ".1")
		after, _ := readLog(log)
		for at, line := range strings.Split(strings.TrimSpace(before+after), "\n") {
			if line != fmt.Sprint(at+1) {
				return fmt.Errorf("line %d is %q", at+1, line)
			}
		}
		return nil
	})
	w.test("logs_pod_drop", func() error { return w.drop(p) })
	return nil
}

// Kills the processes that manage a pod.
func (w *walker) deaths() error {
	p, err := w.runPod(w.podConfig())
	if err != nil {
		return err
	}
	id, _, err := w.running(p, sleeps)
	if err != nil {
		return err
	}
	if w.monitor == shims {
		w.test("one_shim_a_pod", func() error { _, err := w.monitorOf(p, id); return err })
	} else {
		w.test("one_monitor_a_container", func() error { _, err := w.monitorOf(p, id); return err })
	}
	if w.restart != "" {
		w.test("containerd_restarts", func() error {
			if text, err := exec.Command(w.restart).CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, text)
			}
			return w.until("an answer", func() bool {
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
		w.test("running_after_restart", func() error {
			status, err := w.status(id)
			if err != nil {
				return err
			}
			return wanted(status.State, cri.ContainerState_CONTAINER_RUNNING)
		})
		w.test("exec_after_restart", func() error { _, err := w.output(id, "true"); return err })
		w.test("another_container_after_restart", func() error {
			id, _, err := w.running(p, sleeps)
			return errors.Join(err, w.stop(id, 0), w.remove(id))
		})
	}
	if w.monitor == vms {
		// CRI-O does not call the shim's `delete`: the container goes on, and CRI-O cannot stop it.
		return w.drop(p)
	}
	w.test("killed_shim", func() error { return w.killMonitor(p, id) })
	w.test("killed_shim_pod_drop", func() error { return w.drop(p) })
	return nil
}

// Returns the parent of a process, or 0 if there is none.
func parent(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	var state string
	var parent int
	_, _ = fmt.Sscan(rest, &state, &parent)
	return parent
}

func (w *walker) nothing() error {
	ctx, cancel := w.in()
	defer cancel()
	pods, err := w.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	containers, err := w.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return err
	}
	return errors.Join(wanted(len(pods.Items), 0), wanted(len(containers.Containers), 0))
}
