package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func limitMemory(c *cri.ContainerConfig) { c.Linux.Resources.MemoryLimitInBytes = 32 << 20 }

func security(change func(*cri.LinuxContainerSecurityContext)) containerChange {
	return func(c *cri.ContainerConfig) { change(c.Linux.SecurityContext) }
}

func mounted(mount *cri.Mount) containerChange {
	return func(c *cri.ContainerConfig) { c.Mounts = []*cri.Mount{mount} }
}

// Waits until a container that handles signals is ready.
func (w *walker) handles(id string) {
	w.until("the handler", func() bool { return try(func() { w.output(id, "ls", "/ready") }) == nil })
}

// The ways in which containers end, and how this is reported.
func (w *walker) ends() {
	p := w.runPod(w.podConfig())
	limits := []containerChange{limitMemory}
	for _, end := range []struct {
		name   string
		code   int32
		reason string
		words  []string
		act    func(id string)
		limits []containerChange
	}{
		{"end_well", 0, "Completed", []string{"true"}, nil, nil},
		{"end_with_a_code", 7, "Error", shell("exit 7"), nil, nil},
		{"end_by_a_signal", 137, "Error", sleeps, func(id string) { check(syscall.Kill(w.pidOf(id), syscall.SIGKILL)) }, nil},
		// The process that gets the signal reports it.
		{"stop_asks_first", 9, "Error", shell("trap 'exit 9' TERM; touch /ready; while :; do sleep 0.05; done"), func(id string) {
			w.handles(id)
			w.stop(id, 20)
		}, nil},
		{"stop_kills_at_last", 137, "Error", shell("trap '' TERM; while :; do sleep 0.05; done"), func(id string) { w.stop(id, 1) }, nil},
		{"end_by_memory", 137, w.outOfMemory(), shell("exec dd if=/dev/zero of=/dev/null bs=128M count=1"), nil, limits},
		{"memory_kill_of_a_child", 3, w.outOfMemory(), shell("dd if=/dev/zero of=/dev/null bs=128M count=1; sleep 0.5; exit 3"), nil, limits},
	} {
		w.test(end.name, func() {
			id := w.running(p, end.words, end.limits...)
			if end.act != nil {
				end.act(id)
			}
			status := w.ended(id)
			wanted(status.ExitCode, end.code)
			wanted(status.Reason, end.reason)
			w.remove(id)
		})
	}
	w.test("start_of_nothing", func() {
		id, err := w.create(p, w.containerConfig(p, []string{"/no/such"}))
		if err != nil && w.isCRIO() && strings.Contains(err.Error(), "no such file") {
			return // a runtime looks for the program when it creates the container
		}
		check(err)
		if w.start(id) == nil {
			check(errors.New("no error"))
		}
		wanted(w.status(id).State, cri.ContainerState_CONTAINER_EXITED)
		w.remove(id)
	})
	w.test("ends_pod_drop", func() { w.drop(p) })
}

// Kinds of pods and containers that critest does not have: scripts/bed critest, critest-crio.
func (w *walker) kinds() {
	p := w.runPod(w.podConfig())
	in := func(name, want, script string, change containerChange) {
		w.test(name, func() {
			id := w.running(p, sleeps, change)
			wanted(w.output(id, shell(script)...), want)
			w.end(id)
		})
	}
	// A volume `hostPath: /` is the host's root with what is mounted in it, in each propagation. The root of the engine's mount
	// namespace, which this program shares, must be shared. In mountinfo, the propagation follows six fields.
	show := "stat -c %d:%i /host; stat -f -c %T /host/proc; awk '$5 == \"/host\" { sub(/:.*/, \"\", $7); print $7 }' /proc/self/mountinfo"
	private := "-"
	if w.isCRIO() {
		private = "master" // of what its storage lies in
	}
	for _, kind := range []struct {
		name, tag   string
		propagation cri.MountPropagation
	}{
		{"private", private, cri.MountPropagation_PROPAGATION_PRIVATE},
		{"host_to_container", "master", cri.MountPropagation_PROPAGATION_HOST_TO_CONTAINER},
		{"bidirectional", "shared", cri.MountPropagation_PROPAGATION_BIDIRECTIONAL},
	} {
		root := &cri.Mount{ContainerPath: "/host", HostPath: "/", Propagation: kind.propagation}
		in("host_root_"+kind.name, hostRoot()+"\nproc\n"+kind.tag, show, mounted(root))
	}
	// Nobody attaches: the program waits, and is stopped.
	w.test("stdin_once", func() {
		w.end(w.running(p, []string{"cat"}, func(c *cri.ContainerConfig) { c.Stdin, c.StdinOnce = true, true }))
	})
	w.test("kinds_pod_drop", func() { w.drop(p) })
	w.pods()
}

// Returns device and inode of the host's root.
func hostRoot() string {
	var root unix.Stat_t
	check(unix.Stat("/", &root))
	return fmt.Sprintf("%d:%d", root.Dev, root.Ino)
}

func readOnly(s *cri.LinuxContainerSecurityContext) { s.ReadonlyRootfs = true }

// A case in a pod of its own.
func (w *walker) inPod(name string, config *cri.PodSandboxConfig, do func(p pod)) {
	w.test(name, func() {
		p := w.runPod(config)
		defer w.drop(p)
		do(p)
	})
}

// Pods with namespaces of their own, which need a CNI plugin, and other pods.
func (w *walker) pods() {
	w.inPod("privileged", w.podConfig(func(c *cri.PodSandboxConfig) { c.Linux.SecurityContext.Privileged = true }), func(p pod) {
		privileged := security(func(s *cri.LinuxContainerSecurityContext) { s.Privileged = true })
		if w.monitor == vms {
			// The shim gets an exec's capabilities from CRI-O itself: every one, which this host may not have.
			wanted(w.ended(w.running(p, []string{"test", "-w", "/proc/sys/kernel/hostname"}, privileged)).ExitCode, 0)
			return
		}
		wanted(w.output(w.running(p, sleeps, privileged), shell("test -w /proc/sys/kernel/hostname && echo yes")...), "yes")
	})
	if !w.cni {
		return
	}
	w.inPod("pod_network", w.podConfig(ownNetwork), func(p pod) {
		id := w.running(p, sleeps)
		wanted(w.output(id, "readlink", "/proc/self/ns/net") != checked(os.Readlink("/proc/self/ns/net")), true)
		wanted(w.output(id, "hostname"), "box")
	})
	w.inPod("user_namespace", w.mappedPod(200000), func(p pod) {
		wanted(w.output(w.running(p, sleeps), shell("echo $(awk '{ print $2 }' /proc/self/uid_map; stat -c %u /etc/passwd; touch /x; stat -c %u /x)")...), "200000 0 0")
		if w.monitor == vms {
			return // for the type vm, CRI-O refuses volumes with mapped ids
		}
		// The kubelet maps the ids of volumes.
		ids := mappedIds(200000)
		id := w.running(p, sleeps, mounted(&cri.Mount{ContainerPath: "/host", HostPath: "/", UidMappings: ids, GidMappings: ids}))
		wanted(w.output(id, "stat", "-c", "%d:%i %u", "/host"), hostRoot()+" 0")
	})
}

// Concurrent containers in one pod, and many probes as on a node.
func (w *walker) many() {
	p := w.runPod(w.podConfig())
	var ids []string
	w.test("three_containers_in_one_shim", func() {
		for range 3 {
			id := w.running(p, sleeps)
			w.monitorOf(p, id)
			ids = append(ids, id)
		}
	})
	if len(ids) < 3 {
		w.drop(p)
		check(errors.New("no three containers"))
	}
	w.test("each_has_a_file_system_of_its_own", func() {
		for at, id := range ids {
			w.output(id, shell(fmt.Sprintf("echo %d >/mine", at))...)
		}
		for at, id := range ids {
			wanted(w.output(id, "cat", "/mine"), strconv.Itoa(at))
		}
	})
	w.test("execs_200_in_a_row", func() {
		for at := range 200 {
			wanted(w.output(ids[at%3], shell(fmt.Sprintf("echo %d", at))...), strconv.Itoa(at))
		}
	})
	w.test("execs_50_at_once", func() {
		together(50, func(at int) {
			w.says(ids[at%3], fmt.Sprintf("echo %d; echo err >&2; sleep 0.2; exit %d", at, at), fmt.Sprintf("%d\n", at), "err\n", int32(at))
		})
	})
	w.test("one_ends_the_others_go_on", func() {
		w.stop(ids[1], 0)
		for _, id := range []string{ids[0], ids[2]} {
			wanted(w.status(id).State, cri.ContainerState_CONTAINER_RUNNING)
			w.output(id, "true")
		}
		w.remove(ids[1])
	})
	w.test("another_takes_its_place", func() {
		id := w.running(p, sleeps)
		w.monitorOf(p, id)
		w.end(id)
	})
	w.test("stop_waits_as_long_as_it_should", func() {
		id := w.running(p, shell("trap '' TERM; touch /ready; while :; do sleep 0.05; done"))
		w.handles(id)
		start := time.Now()
		w.stop(id, 2)
		if took := time.Since(start); took < 1900*time.Millisecond || took > 15*time.Second {
			check(fmt.Errorf("it took %v", took))
		}
		wanted(w.status(id).ExitCode, 137)
		w.remove(id)
	})
	w.test("memory_kill_of_an_exec", func() {
		id := w.running(p, sleeps, limitMemory)
		wanted(checked(w.exec(id, 20, "dd", "if=/dev/zero", "of=/dev/null", "bs=128M", "count=1")).ExitCode, 137)
		wanted(w.status(id).State, cri.ContainerState_CONTAINER_RUNNING)
		w.end(id)
	})
	w.test("many_pod_drop", func() { w.drop(p) })
}

// Containers whose root filesystem has many layers, also with hooks that look for it in the bundle.
func (w *walker) roots() {
	// Runs a container in a pod of its own.
	in := func(name string, config *cri.PodSandboxConfig, want, script string, changes ...containerChange) {
		w.inPod(name, config, func(p pod) { wanted(w.output(w.running(p, sleeps, changes...), shell(script)...), want) })
	}
	if w.cni {
		owner := "echo $(stat -c %u /etc/passwd; awk '{ print $2 }' /proc/self/uid_map; touch /x 2>/dev/null && echo written)"
		in("user_namespace_read_only", w.mappedPod(200000), "0 200000", owner, security(readOnly))
	}
	if w.layers > 0 {
		image := func(c *cri.ContainerConfig) {
			c.Image = &cri.ImageSpec{Image: w.layered, UserSpecifiedImage: w.layered}
		}
		last := strconv.Itoa(w.layers - 1)
		layers := "echo $(ls /layers | wc -l; cat /layers/0 /layers/" + last + "; stat -c %u /layers/" + last + "; echo >/layers/0 && echo written)"
		want := strconv.Itoa(w.layers) + " 0 " + last + " 0 written"
		in("layers", w.podConfig(), want, layers, image)
		if w.cni {
			in("user_namespace_layers", w.mappedPod(200000), want, layers, image)
		}
	}
	if w.hooks == "" {
		return
	}
	// The hook writes what it finds in the bundle's rootfs to a file: here, the passwd of the image.
	for _, kind := range []string{"createRuntime", "createContainer"} {
		hooked := func(name string, config *cri.PodSandboxConfig, changes ...containerChange) {
			found := filepath.Join(w.hooks, kind)
			os.Remove(found)
			changes = append(changes, func(c *cri.ContainerConfig) { c.CDIDevices = []*cri.CDIDevice{{Name: "dayfly.test/hook=" + kind}} })
			in(name, config, "changed by "+kind, "cat /by-a-hook", changes...)
			w.test(name+"_saw_it", func() {
				wanted(strings.TrimSpace(string(checked(os.ReadFile(found)))), "root:x:0:0:root:/root:/bin/sh")
			})
		}
		name := "hook_" + strings.ToLower(kind)
		hooked(name, w.podConfig())
		if w.cni {
			hooked(name+"_user_namespace", w.mappedPod(200000))
		}
		hooked(name+"_read_only", w.podConfig(), security(readOnly))
	}
}
