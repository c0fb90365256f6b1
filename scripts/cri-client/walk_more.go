package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Concurrent containers in one pod, and many probes as on a node.
func (w *walker) many() error {
	p, err := w.runPod(w.podConfig())
	if err != nil {
		return err
	}
	var ids []string
	w.test("three_containers_in_one_shim", func() error {
		for range 3 {
			id, _, err := w.running(p, sleeps)
			if err != nil {
				return err
			}
			if _, err := w.monitorOf(p, id); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return nil
	})
	if len(ids) < 3 {
		return errors.Join(errors.New("no three containers"), w.drop(p))
	}
	w.test("each_has_a_file_system_of_its_own", func() error {
		for at, id := range ids {
			if _, err := w.output(id, "sh", "-c", fmt.Sprintf("echo %d >/mine", at)); err != nil {
				return err
			}
		}
		for at, id := range ids {
			got, err := w.output(id, "cat", "/mine")
			if err := errors.Join(err, wanted(got, strconv.Itoa(at))); err != nil {
				return err
			}
		}
		return nil
	})
	w.test("execs_200_in_a_row", func() error {
		for at := range 200 {
			got, err := w.output(ids[at%3], "sh", "-c", fmt.Sprintf("echo %d", at))
			if err := errors.Join(err, wanted(got, strconv.Itoa(at))); err != nil {
				return fmt.Errorf("exec %d: %w", at, err)
			}
		}
		return nil
	})
	w.test("execs_50_at_once", func() error {
		results := make(chan error)
		for at := range 50 {
			go func() {
				answer, err := w.exec(ids[at%3], 50, "sh", "-c", fmt.Sprintf("echo %d; echo err >&2; sleep 0.2; exit %d", at, at))
				if err == nil {
					err = errors.Join(wanted(string(answer.Stdout), fmt.Sprintf("%d\n", at)), wanted(string(answer.Stderr), "err\n"),
						wanted(answer.ExitCode, int32(at)))
				}
				results <- err
			}()
		}
		var all error
		for range 50 {
			all = errors.Join(all, <-results)
		}
		return all
	})
	w.test("one_ends_the_others_go_on", func() error {
		if err := w.stop(ids[1], 0); err != nil {
			return err
		}
		for _, id := range []string{ids[0], ids[2]} {
			status, err := w.status(id)
			if err := errors.Join(err, wanted(status.GetState(), cri.ContainerState_CONTAINER_RUNNING)); err != nil {
				return err
			}
			if _, err := w.output(id, "true"); err != nil {
				return err
			}
		}
		return w.remove(ids[1])
	})
	w.test("another_takes_its_place", func() error {
		id, _, err := w.running(p, sleeps)
		if err != nil {
			return err
		}
		_, err = w.monitorOf(p, id)
		return errors.Join(err, w.stop(id, 0), w.remove(id))
	})
	w.test("stop_waits_as_long_as_it_should", func() error {
		id, _, err := w.running(p, []string{"sh", "-c", "trap '' TERM; touch /ready; while :; do sleep 0.05; done"})
		if err != nil {
			return err
		}
		if err := w.until("the program", func() bool { _, err := w.output(id, "ls", "/ready"); return err == nil }); err != nil {
			return err
		}
		start := time.Now()
		if err := w.stop(id, 2); err != nil {
			return err
		}
		if took := time.Since(start); took < 1900*time.Millisecond || took > 15*time.Second {
			return fmt.Errorf("it took %v", took)
		}
		status, err := w.status(id)
		return errors.Join(err, wanted(status.GetExitCode(), 137), w.remove(id))
	})
	w.test("log_is_complete", func() error {
		// Both streams, a megabyte each, complete and in order; the program ends at once.
		id, config, err := w.running(p, []string{"sh", "-c", "seq 1 160000 >&2 & seq 1 160000; wait"})
		if err != nil {
			return err
		}
		if _, err := w.ended(id); err != nil {
			return err
		}
		var all strings.Builder
		for at := range 160000 {
			fmt.Fprintln(&all, at+1)
		}
		var out, errs string
		late := w.until("all lines", func() bool {
			out, errs = readLog(filepath.Join(p.config.LogDirectory, config.LogPath))
			return out == all.String() && errs == all.String()
		})
		if late != nil {
			return fmt.Errorf("%w: %d and %d bytes of %d", late, len(out), len(errs), all.Len())
		}
		return w.remove(id)
	})
	w.test("memory_kill_of_a_child", func() error {
		id, _, err := w.running(p, []string{"sh", "-c", "dd if=/dev/zero of=/dev/null bs=128M count=1; sleep 0.5; exit 3"},
			func(c *cri.ContainerConfig) { c.Linux.Resources.MemoryLimitInBytes = 32 << 20 })
		if err != nil {
			return err
		}
		status, err := w.ended(id)
		return errors.Join(err, wanted(status.GetExitCode(), 3), wanted(status.GetReason(), w.outOfMemory()), w.remove(id))
	})
	w.test("memory_kill_of_an_exec", func() error {
		id, _, err := w.running(p, sleeps, func(c *cri.ContainerConfig) { c.Linux.Resources.MemoryLimitInBytes = 32 << 20 })
		if err != nil {
			return err
		}
		answer, err := w.exec(id, 20, "dd", "if=/dev/zero", "of=/dev/null", "bs=128M", "count=1")
		if err != nil {
			return err
		}
		status, err := w.status(id)
		return errors.Join(err, wanted(answer.ExitCode, 137), wanted(status.GetState(), cri.ContainerState_CONTAINER_RUNNING),
			w.stop(id, 0), w.remove(id))
	})
	w.test("many_pod_drop", func() error { return w.drop(p) })
	return nil
}

// Containers whose root filesystem has many layers, also with hooks that look for it in the bundle.
func (w *walker) roots() error {
	// Runs a container in a pod of its own.
	in := func(name string, config *cri.PodSandboxConfig, want string, words []string, change ...func(*cri.ContainerConfig)) {
		w.test(name, func() error {
			p, err := w.runPod(config)
			if err != nil {
				return err
			}
			id, _, err := w.running(p, sleeps, change...)
			if err != nil {
				return errors.Join(err, w.drop(p))
			}
			got, err := w.output(id, words...)
			return errors.Join(err, wanted(got, want), w.drop(p))
		})
	}
	readOnly := func(c *cri.ContainerConfig) { c.Linux.SecurityContext.ReadonlyRootfs = true }
	owner := []string{"sh", "-c", "echo $(stat -c %u /etc/passwd; awk '{ print $2 }' /proc/self/uid_map; touch /x 2>/dev/null && echo written)"}
	if w.cni {
		in("user_namespace_read_only", w.mappedPod(200000), "0 200000", owner, readOnly)
	}
	if w.layers > 0 {
		image := func(c *cri.ContainerConfig) {
			c.Image = &cri.ImageSpec{Image: w.layered, UserSpecifiedImage: w.layered}
		}
		last := strconv.Itoa(w.layers - 1)
		layers := []string{"sh", "-c", "echo $(ls /layers | wc -l; cat /layers/0 /layers/" + last + "; stat -c %u /layers/" + last + "; echo >/layers/0 && echo written)"}
		want := strconv.Itoa(w.layers) + " 0 " + last + " 0 written"
		in("layers", w.podConfig(), want, layers, image)
		if w.cni {
			in("user_namespace_layers", w.mappedPod(200000), want, layers, image)
		}
	}
	if w.hooks == "" {
		return nil
	}
	// The hook writes what it finds in the bundle's rootfs to a file: here, the passwd of the image.
	for _, kind := range []string{"createRuntime", "createContainer"} {
		change := func(c *cri.ContainerConfig) { c.CDIDevices = []*cri.CDIDevice{{Name: "dayfly.test/hook=" + kind}} }
		hooked := func(name string, config *cri.PodSandboxConfig, change ...func(*cri.ContainerConfig)) {
			found := filepath.Join(w.hooks, kind)
			os.Remove(found)
			in(name, config, "changed by "+kind, []string{"cat", "/by-a-hook"}, change...)
			w.test(name+"_saw_it", func() error {
				text, err := os.ReadFile(found)
				if err != nil {
					return err
				}
				return wanted(strings.TrimSpace(string(text)), "root:x:0:0:root:/root:/bin/sh")
			})
		}
		name := "hook_" + strings.ToLower(kind)
		hooked(name, w.podConfig(), change)
		if w.cni {
			hooked(name+"_user_namespace", w.mappedPod(200000), change)
		}
		hooked(name+"_read_only", w.podConfig(), change, readOnly)
	}
	return nil
}
