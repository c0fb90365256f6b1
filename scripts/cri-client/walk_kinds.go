package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The ways in which containers end, and how this is reported.
func (w *walker) ends() error {
	p, err := w.runPod(w.podConfig())
	if err != nil {
		return err
	}
	end := func(name string, code int32, reason string, words []string, act func(id string) error, change ...func(*cri.ContainerConfig)) {
		w.test(name, func() error {
			id, _, err := w.running(p, words, change...)
			if err != nil {
				return err
			}
			if err := act(id); err != nil {
				return err
			}
			status, err := w.ended(id)
			if err != nil {
				return err
			}
			return errors.Join(wanted(status.ExitCode, code), wanted(status.Reason, reason), w.remove(id))
		})
	}
	nothing := func(string) error { return nil }
	end("end_well", 0, "Completed", []string{"true"}, nothing)
	end("end_with_a_code", 7, "Error", []string{"sh", "-c", "exit 7"}, nothing)
	end("end_by_a_signal", 137, "Error", sleeps, func(id string) error {
		pid, err := w.pidOf(id)
		return errors.Join(err, syscall.Kill(pid, syscall.SIGKILL))
	})
	// The process that gets the signal reports it.
	end("stop_asks_first", 9, "Error", []string{"sh", "-c", "trap 'exit 9' TERM; touch /ready; while :; do sleep 0.05; done"}, func(id string) error {
		err := w.until("the handler", func() bool { _, err := w.output(id, "ls", "/ready"); return err == nil })
		return errors.Join(err, w.stop(id, 20))
	})
	end("stop_kills_at_last", 137, "Error", []string{"sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"}, func(id string) error {
		return w.stop(id, 1)
	})
	end("end_by_memory", 137, w.outOfMemory(), []string{"dd", "if=/dev/zero", "of=/dev/null", "bs=128M", "count=1"}, nothing,
		func(c *cri.ContainerConfig) { c.Linux.Resources.MemoryLimitInBytes = 32 << 20 })
	w.test("start_of_nothing", func() error {
		id, err := w.create(p, w.containerConfig(p, []string{"/no/such"}))
		if err != nil && w.isCRIO() && strings.Contains(err.Error(), "no such file") {
			return nil // a runtime looks for the program when it creates the container
		}
		if err != nil {
			return err
		}
		if w.start(id) == nil {
			return errors.New("no error")
		}
		status, err := w.status(id)
		if err != nil {
			return err
		}
		return errors.Join(wanted(status.State, cri.ContainerState_CONTAINER_EXITED), w.remove(id))
	})
	w.test("ends_pod_drop", func() error { return w.drop(p) })
	return nil
}

// Kinds of pods and containers.
func (w *walker) kinds() error {
	p, err := w.runPod(w.podConfig())
	if err != nil {
		return err
	}
	in := func(name, want string, words []string, change ...func(*cri.ContainerConfig)) {
		w.test(name, func() error {
			id, _, err := w.running(p, sleeps, change...)
			if err != nil {
				return err
			}
			got, err := w.output(id, words...)
			return errors.Join(err, wanted(got, want), w.stop(id, 0), w.remove(id))
		})
	}
	security := func(change func(*cri.LinuxContainerSecurityContext)) func(*cri.ContainerConfig) {
		return func(c *cri.ContainerConfig) { change(c.Linux.SecurityContext) }
	}
	filter := []string{"sh", "-c", "sed -n 's/^Seccomp:[^0-9]*//p' /proc/self/status"}
	in("seccomp_runtime_default", "2", filter, security(func(s *cri.LinuxContainerSecurityContext) {
		s.Seccomp = &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault}
	}))
	in("seccomp_unconfined", "0", filter, security(func(s *cri.LinuxContainerSecurityContext) {
		s.Seccomp = &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Unconfined}
	}))
	in("run_as_user", "1000 1001 1", []string{"sh", "-c", "echo $(id -u; id -g; sed -n 's/^NoNewPrivs:[^0-9]*//p' /proc/self/status)"},
		security(func(s *cri.LinuxContainerSecurityContext) {
			s.RunAsUser, s.RunAsGroup, s.NoNewPrivs = &cri.Int64Value{Value: 1000}, &cri.Int64Value{Value: 1001}, true
		}))
	in("read_only", "no", []string{"sh", "-c", "touch /x 2>/dev/null || echo no"},
		security(func(s *cri.LinuxContainerSecurityContext) { s.ReadonlyRootfs = true }))
	in("capability_added", "yes", []string{"sh", "-c", "[ $((0x$(sed -n 's/^CapEff:[^0-9]*//p' /proc/self/status) >> 21 & 1)) = 1 ] && echo yes"},
		security(func(s *cri.LinuxContainerSecurityContext) {
			s.Capabilities = &cri.Capability{AddCapabilities: []string{"SYS_ADMIN"}}
		}))
	in("environment", "blue", []string{"sh", "-c", "tr '\\0' '\\n' </proc/1/environ | sed -n 's/^COLOUR=//p'"},
		func(c *cri.ContainerConfig) { c.Envs = []*cri.KeyValue{{Key: "COLOUR", Value: []byte("blue")}} })
	shared := filepath.Join(p.config.LogDirectory, "shared")
	if err := os.MkdirAll(shared, 0o755); err != nil {
		return err
	}
	in("mount", "hello", []string{"sh", "-c", "echo hello >/mnt/file; cat /mnt/file"},
		func(c *cri.ContainerConfig) { c.Mounts = []*cri.Mount{{ContainerPath: "/mnt", HostPath: shared}} })
	in("mount_read_only", "no", []string{"sh", "-c", "touch /mnt/other 2>/dev/null || echo no"},
		func(c *cri.ContainerConfig) {
			c.Mounts = []*cri.Mount{{ContainerPath: "/mnt", HostPath: shared, Readonly: true}}
		})
	w.hostRoot(in)
	in("working_directory", "/tmp", []string{"readlink", "/proc/1/cwd"}, func(c *cri.ContainerConfig) { c.WorkingDir = "/tmp" })
	w.test("stdin_once", func() error {
		// Nobody attaches: the program waits, and is stopped.
		id, _, err := w.running(p, []string{"cat"}, func(c *cri.ContainerConfig) { c.Stdin, c.StdinOnce = true, true })
		return errors.Join(err, w.stop(id, 0), w.remove(id))
	})
	w.test("kinds_pod_drop", func() error { return w.drop(p) })

	w.test("privileged", func() error {
		p, err := w.runPod(w.podConfig(func(c *cri.PodSandboxConfig) { c.Linux.SecurityContext.Privileged = true }))
		if err != nil {
			return err
		}
		defer w.drop(p)
		privileged := security(func(s *cri.LinuxContainerSecurityContext) { s.Privileged = true })
		if w.monitor == vms {
			// The shim gets an exec's capabilities from CRI-O itself: every one, which this host may not have.
			id, _, err := w.running(p, []string{"test", "-w", "/proc/sys/kernel/hostname"}, privileged)
			if err != nil {
				return err
			}
			status, err := w.ended(id)
			return errors.Join(err, wanted(status.GetExitCode(), 0))
		}
		id, _, err := w.running(p, sleeps, privileged)
		if err != nil {
			return err
		}
		got, err := w.output(id, "sh", "-c", "test -w /proc/sys/kernel/hostname && echo yes")
		return errors.Join(err, wanted(got, "yes"))
	})
	w.test("shared_pid_namespace", func() error {
		p, err := w.runPod(w.podConfig(func(c *cri.PodSandboxConfig) {
			c.Linux.SecurityContext.NamespaceOptions.Pid = cri.NamespaceMode_POD
		}))
		if err != nil {
			return err
		}
		defer w.drop(p)
		id, _, err := w.running(p, []string{"sleep", "999999"})
		if err != nil {
			return err
		}
		first, err := w.output(id, "cat", "/proc/1/cmdline")
		// When the container is killed, its executed programs end, although the PID namespace stays.
		return errors.Join(err, wanted(strings.Contains(first, "999999"), false), w.stop(id, 0))
	})
	if w.cni {
		w.namespaces()
	}
	return nil
}

// A volume `hostPath: /` is the host's root with what is mounted in it, in each propagation. The root of the engine's mount
// namespace, which this program shares, must be shared. in runs a case with a container.
func (w *walker) hostRoot(in func(name, want string, words []string, change ...func(*cri.ContainerConfig))) {
	var root unix.Stat_t
	if err := unix.Stat("/", &root); err != nil {
		w.test("host_root", func() error { return err })
		return
	}
	// In mountinfo, the propagation follows six fields.
	show := []string{"sh", "-c", "stat -c %d:%i /host; stat -f -c %T /host/proc; awk '$5 == \"/host\" { sub(/:.*/, \"\", $7); print $7 }' /proc/self/mountinfo"}
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
		in("host_root_"+kind.name, fmt.Sprintf("%d:%d\nproc\n%s", root.Dev, root.Ino, kind.tag), show, func(c *cri.ContainerConfig) {
			c.Mounts = []*cri.Mount{{ContainerPath: "/host", HostPath: "/", Propagation: kind.propagation}}
		})
	}
}

// Pods with their own namespaces, which need a CNI plugin.
func (w *walker) namespaces() {
	network := func(c *cri.PodSandboxConfig) {
		c.Hostname = "box"
		c.Linux.SecurityContext.NamespaceOptions.Network = cri.NamespaceMode_POD
	}
	w.test("pod_network", func() error {
		p, err := w.runPod(w.podConfig(network))
		if err != nil {
			return err
		}
		defer w.drop(p)
		id, _, err := w.running(p, sleeps)
		if err != nil {
			return err
		}
		host, err := os.Readlink("/proc/self/ns/net")
		if err != nil {
			return err
		}
		got, err := w.output(id, "readlink", "/proc/self/ns/net")
		name, again := w.output(id, "hostname")
		return errors.Join(err, again, wanted(got != host, true), wanted(name, "box"))
	})
	w.test("user_namespace", func() error {
		ids := []*cri.IDMapping{{HostId: 200000, ContainerId: 0, Length: 65536}}
		users := &cri.UserNamespace{Mode: cri.NamespaceMode_POD, Uids: ids, Gids: ids}
		p, err := w.runPod(w.podConfig(network, func(c *cri.PodSandboxConfig) {
			c.Linux.SecurityContext.NamespaceOptions.UsernsOptions = users
		}))
		if err != nil {
			return err
		}
		defer w.drop(p)
		id, _, err := w.running(p, sleeps)
		if err != nil {
			return err
		}
		got, err := w.output(id, "sh", "-c", "echo $(awk '{ print $2 }' /proc/self/uid_map; stat -c %u /etc/passwd; touch /x; stat -c %u /x)")
		// For the type vm, CRI-O refuses volumes with mapped ids.
		if err := errors.Join(err, wanted(got, "200000 0 0")); err != nil || w.monitor == vms {
			return err
		}
		// The kubelet maps the ids of volumes.
		id, _, err = w.running(p, sleeps, func(c *cri.ContainerConfig) {
			c.Mounts = []*cri.Mount{{ContainerPath: "/host", HostPath: "/", UidMappings: ids, GidMappings: ids}}
		})
		if err != nil {
			return err
		}
		var root unix.Stat_t
		if err := unix.Stat("/", &root); err != nil {
			return err
		}
		got, err = w.output(id, "stat", "-c", "%d:%i %u", "/host")
		return errors.Join(err, wanted(got, fmt.Sprintf("%d:%d 0", root.Dev, root.Ino)))
	})
}
