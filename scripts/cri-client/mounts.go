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
	"time"

	"golang.org/x/sys/unix"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// From linux/fanotify.h and linux/mount.h, Linux 6.15, where golang.org/x/sys has no name for it.
const (
	fanReportMnt    = 0x4000
	fanMarkMntns    = 0x110
	fanMntAttach    = 0x01000000
	fanOverflow     = 0x4000
	infoOfMount     = 7
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
func watchMounts(daemon int) (*watch, error) {
	group, err := unix.FanotifyInit(unix.FAN_CLOEXEC|unix.FAN_UNLIMITED_QUEUE|fanReportMnt, 0)
	if err != nil {
		return nil, fmt.Errorf("fanotify_init with FAN_REPORT_MNT (Linux 6.15): %w", err)
	}
	place := fmt.Sprintf("/proc/%d/ns/mnt", daemon)
	if own, _ := os.Readlink("/proc/self/ns/mnt"); own == "" || own != must(os.Readlink(place)) {
		return nil, fmt.Errorf("containerd %d is in another mount namespace", daemon)
	}
	namespace, err := unix.Open(place, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", place, err)
	}
	defer unix.Close(namespace)
	_, _, errno := unix.Syscall6(unix.SYS_FANOTIFY_MARK, uintptr(group), unix.FAN_MARK_ADD|fanMarkMntns, fanMntAttach, uintptr(namespace), 0, 0)
	if errno != 0 {
		return nil, fmt.Errorf("fanotify_mark of %s: %w", place, errno)
	}
	w := &watch{group: group, daemon: int32(daemon), kinds: map[string]int{}}
	w.done.Add(1)
	go w.run()
	return w, nil
}

func must(text string, _ error) string { return text }

// Reads until this process itself mounts something, which marks the end: all earlier events have been read.
func (w *watch) run() {
	defer w.done.Done()
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
			w.lost = w.lost || mask&fanOverflow != 0
			if pid == int32(os.Getpid()) {
				return
			}
			if mask&fanMntAttach != 0 {
				w.count(pid, rest[binary.NativeEndian.Uint16(rest[6:]):size])
			}
			rest = rest[size:]
		}
	}
}

func (w *watch) count(pid int32, info []byte) {
	kind, place := "gone", ""
	if len(info) >= 16 && info[0] == infoOfMount {
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
	if err := statmountCall(request[:], told[:]); err != nil {
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
func (w *watch) end(directory string) error {
	defer unix.Close(w.group)
	if err := unix.Mount(directory, directory, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", directory, err)
	}
	w.done.Wait()
	if err := unix.Unmount(directory, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", directory, err)
	}
	if w.lost {
		return errors.New("the kernel lost events")
	}
	return nil
}

// Returns the configuration of a pod in a user namespace, with 65536 ids from `first`.
func (c *client) mappedPod(first uint32) *cri.PodSandboxConfig {
	ids := []*cri.IDMapping{{HostId: first, ContainerId: 0, Length: 65536}}
	return c.podConfig(func(config *cri.PodSandboxConfig) {
		config.Hostname = "box"
		options := config.Linux.SecurityContext.NamespaceOptions
		options.Network = cri.NamespaceMode_POD
		options.UsernsOptions = &cri.UserNamespace{Mode: cri.NamespaceMode_POD, Uids: ids, Gids: ids}
	})
}

// Runs this number of pods at once, in user namespaces and with a container each, and removes them. Prints a line:
// mounts by containerd, by others, of root filesystems among these, and those that dayfly keeps for the host; medians
// in microseconds of RunPodSandbox, CreateContainer and StartContainer. Prints the mounts to stderr.
func mounts(o options) error {
	c, err := connect(o)
	if err != nil {
		return err
	}
	w, err := watchMounts(o.daemon)
	if err != nil {
		return err
	}
	var pods []pod
	times := map[string][]float64{}
	run := func(number int) error {
		t := steps{took: map[string]float64{}, begin: time.Now()}
		var p pod
		var id string
		t.do("pod", func() (err error) { p, err = c.runPod(c.mappedPod(uint32(1+number) << 16)); return })
		if t.err == nil {
			pods = append(pods, p)
		}
		t.do("create", func() (err error) { id, err = c.create(p, c.containerConfig(p, sleeps)); return })
		t.do("start", func() error { return c.start(id) })
		for name, took := range t.took {
			times[name] = append(times[name], took)
		}
		if t.err == nil && o.layers > 0 && number == 0 {
			// All of them exist, and their files belong to root of the user namespace.
			got, err := c.output(id, "sh", "-c", "echo $(ls /layers | wc -l; stat -c %u /layers/0)")
			return errors.Join(err, wanted(got, strconv.Itoa(o.layers)+" 0"))
		}
		return t.err
	}
	var failed error
	for number := range o.count {
		if failed = run(number); failed != nil {
			break
		}
	}
	for _, p := range pods {
		failed = errors.Join(failed, c.drop(p))
	}
	if err := errors.Join(failed, w.end(o.directory)); err != nil {
		return err
	}
	fmt.Println(w.byDaemon, w.byOthers, w.ofRoots, w.kept, median(times["pod"]), median(times["create"]), median(times["start"]))
	var kinds []string
	for kind, count := range w.kinds {
		kinds = append(kinds, fmt.Sprintf("%s: %d", kind, count))
	}
	slices.Sort(kinds)
	fmt.Fprintln(os.Stderr, strings.Join(kinds, ", "))
	for at, told := range w.told {
		if at == 8 {
			fmt.Fprintln(os.Stderr, "...")
			break
		}
		fmt.Fprintln(os.Stderr, told)
	}
	return nil
}

func median(values []float64) int {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return int(values[len(values)/2])
}
