package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Counts mounts attached in a mount namespace, as reported by the kernel: fanotify(7) with FAN_REPORT_MNT.
type watch struct {
	group  int
	daemon int32
	// The daemon's mounts, all other mounts, and the processes that made these.
	byDaemon, byOthers int
	told               []string
	lost               bool
	done               sync.WaitGroup
}

// Watches the mount namespace of this process, which must be the daemon's.
func watchMounts(daemon int) *watch {
	group, err := unix.FanotifyInit(unix.FAN_CLOEXEC|unix.FAN_UNLIMITED_QUEUE|unix.FAN_REPORT_MNT, 0)
	if err != nil {
		check(fmt.Errorf("fanotify_init with FAN_REPORT_MNT (Linux 6.15): %w", err))
	}
	place := fmt.Sprintf("/proc/%d/ns/mnt", daemon)
	if checked(os.Readlink("/proc/self/ns/mnt")) != checked(os.Readlink(place)) {
		check(fmt.Errorf("containerd %d is in another mount namespace", daemon))
	}
	namespace := checked(os.Open(place))
	defer namespace.Close()
	// FanotifyMark takes no descriptor of a namespace without a path.
	const mark = unix.FAN_MARK_ADD | unix.FAN_MARK_MNTNS
	_, _, errno := unix.Syscall6(unix.SYS_FANOTIFY_MARK, uintptr(group), mark, unix.FAN_MNT_ATTACH, namespace.Fd(), 0, 0)
	if errno != 0 {
		check(fmt.Errorf("fanotify_mark of %s: %w", place, errno))
	}
	w := &watch{group: group, daemon: int32(daemon)}
	w.done.Go(w.run)
	return w
}

// Reads until this process itself mounts something, which marks the end: all earlier events have been read.
func (w *watch) run() {
	buffer := make([]byte, 1<<16)
	for {
		length, err := unix.Read(w.group, buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			w.lost = true
			return
		}
		for rest := buffer[:length]; len(rest) >= 24; {
			size := int(binary.NativeEndian.Uint32(rest))
			if size < 24 || size > len(rest) {
				w.lost = true
				return
			}
			mask, pid := binary.NativeEndian.Uint64(rest[8:]), int32(binary.NativeEndian.Uint32(rest[20:]))
			w.lost = w.lost || mask&unix.FAN_Q_OVERFLOW != 0
			if pid == int32(os.Getpid()) {
				return
			}
			if pid == w.daemon {
				w.byDaemon++
			} else {
				w.byOthers++
				name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
				w.told = append(w.told, fmt.Sprintf("%d %s", pid, strings.TrimSpace(string(name))))
			}
			rest = rest[size:]
		}
	}
}

// Ends the watch, once all earlier events are counted.
func (w *watch) end(directory string) {
	defer unix.Close(w.group)
	check(unix.Mount(directory, directory, "", unix.MS_BIND, ""))
	w.done.Wait()
	check(unix.Unmount(directory, unix.MNT_DETACH))
	if w.lost {
		check(errors.New("the kernel lost events"))
	}
}

// Runs this number of pods at once, in user namespaces and with a container each, and removes them. Prints a line: mounts
// by containerd, and by others; medians in microseconds of RunPodSandbox, CreateContainer and StartContainer. A pod before
// them makes the mounts that dayfly keeps for the host. Prints to stderr who mounted what is not containerd's.
func mounts(o options) {
	c := connect(o)
	times := map[string][]float64{}
	c.hold(1, o.layers, map[string][]float64{})
	w := watchMounts(o.daemon)
	failed := try(func() { c.hold(o.count, o.layers, times) })
	check(failed, try(func() { w.end(o.directory) }))
	fmt.Println(w.byDaemon, w.byOthers, median(times["pod"]), median(times["create"]), median(times["start"]))
	for _, told := range w.told[:min(len(w.told), 8)] {
		fmt.Fprintln(os.Stderr, told)
	}
}

// Creates such pods, and removes them.
func (c *client) hold(count, layers int, times map[string][]float64) {
	var pods []pod
	failed := try(func() {
		for number := range count {
			t := steps{}
			var p pod
			var id string
			t.time("pod", func() { p = c.runPod(c.mappedPod(uint32(1+number) << 16)) })
			pods = append(pods, p)
			t.time("create", func() { id = c.create(p, sleeps) })
			t.time("start", func() { c.start(id) })
			for name, took := range t {
				times[name] = append(times[name], took)
			}
			// All layers exist, and their files belong to root of the user namespace.
			if want := fmt.Sprintf("%d 0", layers); layers > 0 && number == 0 {
				answer := checked(c.exec(id, "sh", "-c", "echo $(ls /layers | wc -l; stat -c %u /layers/0)"))
				if got := strings.TrimSpace(string(answer.Stdout)); got != want {
					check(fmt.Errorf("%q instead of %q", got, want))
				}
			}
		}
	})
	for _, p := range pods {
		failed = errors.Join(failed, try(func() { c.drop(p) }))
	}
	check(failed)
}

func median(values []float64) int {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return int(values[len(values)/2])
}
