package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From linux/mount.h; golang.org/x/sys has no statmount(2).
const (
	statMountPoint  = 0x10
	statFsType      = 0x20
	statmountHeader = 512
)

// Counts mounts attached in a mount namespace, as reported by the kernel: fanotify(7) with FAN_REPORT_MNT.
type watch struct {
	group  int
	daemon int32
	// The daemon's mounts; those that dayfly keeps once per host; all other mounts; and among these the root filesystems,
	// the overlays, and those that were gone before they could be examined.
	byDaemon, kept, byOthers, ofRoots int
	kinds                             map[string]int
	// Of the other mounts: process, type and place.
	told []string
	lost bool
	done sync.WaitGroup
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
	_, _, errno := unix.Syscall6(unix.SYS_FANOTIFY_MARK, uintptr(group), unix.FAN_MARK_ADD|unix.FAN_MARK_MNTNS, unix.FAN_MNT_ATTACH, namespace.Fd(), 0, 0)
	if errno != 0 {
		check(fmt.Errorf("fanotify_mark of %s: %w", place, errno))
	}
	w := &watch{group: group, daemon: int32(daemon), kinds: map[string]int{}}
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
			if mask&unix.FAN_MNT_ATTACH != 0 {
				w.count(pid, rest[binary.NativeEndian.Uint16(rest[6:]):size])
			}
			rest = rest[size:]
		}
	}
}

func (w *watch) count(pid int32, info []byte) {
	kind, place := "gone", ""
	if len(info) >= 16 && info[0] == unix.FAN_EVENT_INFO_TYPE_MNT {
		kind, place = statmount(binary.NativeEndian.Uint64(info[8:]))
	}
	if pid == w.daemon {
		w.byDaemon++
		w.kinds["containerd "+kind]++
		return
	}
	if strings.HasPrefix(place, "/run/dayfly-cache/") {
		w.kept++
		w.kinds["kept by dayfly "+kind]++
		return
	}
	w.byOthers++
	w.kinds["others "+kind]++
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	w.told = append(w.told, fmt.Sprintf("%d %s %s on %s", pid, strings.TrimSpace(string(name)), kind, place))
	if kind == "gone" || kind == "overlay" || strings.HasPrefix(place, "/tmp/ovl-idmapped") || filepath.Base(place) == "rootfs" || strings.Contains(place, "/rootfs/") {
		w.ofRoots++
	}
}

// Returns the type and place of an existing mount.
func statmount(id uint64) (kind, place string) {
	var request [32]byte
	binary.NativeEndian.PutUint32(request[0:], 24)
	binary.NativeEndian.PutUint64(request[8:], id)
	binary.NativeEndian.PutUint64(request[16:], statMountPoint|statFsType)
	var told [8192]byte
	_, _, errno := unix.Syscall6(unix.SYS_STATMOUNT, uintptr(unsafe.Pointer(&request)), uintptr(unsafe.Pointer(&told)), uintptr(len(told)), 0, 0, 0)
	if errno != 0 {
		return "gone", ""
	}
	text := func(at int) string {
		offset := statmountHeader + int(binary.NativeEndian.Uint32(told[at:]))
		if offset >= len(told) {
			return ""
		}
		name, _, _ := strings.Cut(string(told[offset:]), "\x00")
		return name
	}
	return text(36), text(108)
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

// Runs this number of pods at once, in user namespaces and with a container each, and removes them. Prints a line:
// mounts by containerd, by others, of root filesystems among these, and those that dayfly keeps for the host; medians
// in microseconds of RunPodSandbox, CreateContainer and StartContainer. Prints the mounts to stderr.
func mounts(o options) {
	c := connect(o)
	w := watchMounts(o.daemon)
	var pods []pod
	times := map[string][]float64{}
	failed := try(func() {
		for number := range o.count {
			t := steps{}
			var p pod
			var id string
			t.time("pod", func() { p = c.runPod(c.mappedPod(uint32(1+number) << 16)) })
			pods = append(pods, p)
			t.time("create", func() { id = checked(c.create(p, c.containerConfig(p, sleeps))) })
			t.time("start", func() { check(c.start(id)) })
			for name, took := range t {
				times[name] = append(times[name], took)
			}
			if o.layers > 0 && number == 0 {
				// All of them exist, and their files belong to root of the user namespace.
				wanted(c.output(id, "sh", "-c", "echo $(ls /layers | wc -l; stat -c %u /layers/0)"), strconv.Itoa(o.layers)+" 0")
			}
		}
	})
	for _, p := range pods {
		failed = errors.Join(failed, try(func() { c.drop(p) }))
	}
	check(failed, try(func() { w.end(o.directory) }))
	fmt.Println(w.byDaemon, w.byOthers, w.ofRoots, w.kept, median(times["pod"]), median(times["create"]), median(times["start"]))
	var kinds []string
	for kind, count := range w.kinds {
		kinds = append(kinds, fmt.Sprintf("%s: %d", kind, count))
	}
	slices.Sort(kinds)
	fmt.Fprintln(os.Stderr, strings.Join(kinds, ", "))
	if len(w.told) > 8 {
		w.told = append(w.told[:8], "...")
	}
	for _, told := range w.told {
		fmt.Fprintln(os.Stderr, told)
	}
}

func median(values []float64) int {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return int(values[len(values)/2])
}
