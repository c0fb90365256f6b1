package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// An error that ends a case or a command: check panics with it, and try returns it.
type failure struct{ error }

func check(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		panic(failure{err})
	}
}

func checked[T any](value T, err error) T {
	check(err)
	return value
}

func try(do func()) (err error) {
	defer func() {
		switch caught := recover().(type) {
		case nil:
		case failure:
			err = caught.error
		default:
			panic(caught)
		}
	}()
	do()
	return nil
}

// A connection to the CRI, and the settings of all pods.
type client struct {
	options
	cri.RuntimeServiceClient
	serial atomic.Int64
}

func connect(o options) *client {
	connection := checked(grpc.NewClient("unix://"+o.address, grpc.WithTransportCredentials(insecure.NewCredentials())))
	return &client{options: o, RuntimeServiceClient: cri.NewRuntimeServiceClient(connection)}
}

// Calls a method of the CRI, within the time limit of a call. The error names the method.
func call[Q, A any](c *client, method func(context.Context, *Q, ...grpc.CallOption) (*A, error), request *Q) (*A, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.patience)
	defer cancel()
	answer, err := method(ctx, request)
	if err != nil {
		name := strings.TrimPrefix(fmt.Sprintf("%T", request), "*v1.")
		return nil, fmt.Errorf("%s: %w", strings.TrimSuffix(name, "Request"), err)
	}
	return answer, nil
}

// A pod: its configuration, which its containers' calls need, and its id.
type pod struct {
	config *cri.PodSandboxConfig
	id     string
}

// Changes of a configuration.
type (
	podChange       = func(*cri.PodSandboxConfig)
	containerChange = func(*cri.ContainerConfig)
)

// Returns the configuration of a pod in the host's network namespace.
func (c *client) podConfig(changes ...podChange) *cri.PodSandboxConfig {
	name := fmt.Sprintf("pod-%d-%d", os.Getpid(), c.serial.Add(1))
	config := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Uid: name, Namespace: "test"},
		LogDirectory: filepath.Join(c.directory, name),
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent: c.cgroup,
			SecurityContext: &cri.LinuxSandboxSecurityContext{
				NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_CONTAINER},
			},
		},
	}
	for _, change := range changes {
		change(config)
	}
	return config
}

// Changes the configuration of a pod: a network namespace of its own.
func ownNetwork(config *cri.PodSandboxConfig) {
	config.Hostname = "box"
	config.Linux.SecurityContext.NamespaceOptions.Network = cri.NamespaceMode_POD
}

// Returns the configuration of a pod in a user namespace, with 65536 ids from `first`.
func (c *client) mappedPod(first uint32) *cri.PodSandboxConfig {
	ids := mappedIds(first)
	return c.podConfig(ownNetwork, func(config *cri.PodSandboxConfig) {
		config.Linux.SecurityContext.NamespaceOptions.UsernsOptions = &cri.UserNamespace{Mode: cri.NamespaceMode_POD, Uids: ids, Gids: ids}
	})
}

func mappedIds(first uint32) []*cri.IDMapping {
	return []*cri.IDMapping{{HostId: first, ContainerId: 0, Length: 65536}}
}

func (c *client) runPod(config *cri.PodSandboxConfig) pod {
	check(os.MkdirAll(config.LogDirectory, 0o755))
	answer := checked(call(c, c.RunPodSandbox, &cri.RunPodSandboxRequest{Config: config, RuntimeHandler: c.handler}))
	return pod{config, answer.PodSandboxId}
}

// Returns the configuration of a container that runs this command.
func (c *client) containerConfig(p pod, words []string, changes ...containerChange) *cri.ContainerConfig {
	name := fmt.Sprintf("c%d", c.serial.Add(1))
	namespaces := proto.Clone(p.config.Linux.SecurityContext.NamespaceOptions).(*cri.NamespaceOption)
	config := &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: name},
		Image:    &cri.ImageSpec{Image: c.image, UserSpecifiedImage: c.image},
		Command:  words,
		LogPath:  name + ".log",
		Linux: &cri.LinuxContainerConfig{
			Resources:       &cri.LinuxContainerResources{},
			SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: namespaces},
		},
	}
	for _, change := range changes {
		change(config)
	}
	return config
}

func (c *client) create(p pod, config *cri.ContainerConfig) (string, error) {
	answer, err := call(c, c.CreateContainer, &cri.CreateContainerRequest{PodSandboxId: p.id, Config: config, SandboxConfig: p.config})
	return answer.GetContainerId(), err
}

func (c *client) start(id string) error {
	_, err := call(c, c.StartContainer, &cri.StartContainerRequest{ContainerId: id})
	return err
}

func (c *client) stop(id string, grace int64) {
	checked(call(c, c.StopContainer, &cri.StopContainerRequest{ContainerId: id, Timeout: grace}))
}

func (c *client) remove(id string) {
	checked(call(c, c.RemoveContainer, &cri.RemoveContainerRequest{ContainerId: id}))
}

// Stops a container at once, and removes it.
func (c *client) end(id string) {
	c.stop(id, 0)
	c.remove(id)
}

func (c *client) stopPod(p pod) {
	checked(call(c, c.StopPodSandbox, &cri.StopPodSandboxRequest{PodSandboxId: p.id}))
}

func (c *client) removePod(p pod) {
	defer os.RemoveAll(p.config.LogDirectory)
	checked(call(c, c.RemovePodSandbox, &cri.RemovePodSandboxRequest{PodSandboxId: p.id}))
}

// Removes a pod and everything in it, in any state. CRI-O would wait 10 s for each container's end.
func (c *client) drop(p pod) {
	if c.monitor != shims {
		filter := &cri.ContainerFilter{PodSandboxId: p.id}
		for _, container := range checked(call(c, c.ListContainers, &cri.ListContainersRequest{Filter: filter})).Containers {
			c.stop(container.Id, 0)
		}
	}
	c.stopPod(p)
	c.removePod(p)
}

func (c *client) exec(id string, seconds int64, words ...string) (*cri.ExecSyncResponse, error) {
	if c.monitor == vms && len(words) > 1 && words[0] != "sleep" {
		words = staying(words)
	}
	return call(c, c.ExecSync, &cri.ExecSyncRequest{ContainerId: id, Cmd: words, Timeout: seconds})
}

// Returns the output of ExecSync without the last newline; an exit code is an error.
func (c *client) output(id string, words ...string) string {
	answer := checked(c.exec(id, 0, words...))
	if answer.ExitCode != 0 {
		check(fmt.Errorf("exit code %d: %s", answer.ExitCode, answer.Stderr))
	}
	return strings.TrimSuffix(string(answer.Stdout), "\n")
}

// Runs /bin/true in a container; returns how long that took, in microseconds.
func (c *client) execIn(id string) float64 {
	start := time.Now()
	if answer := checked(c.exec(id, 10, "/bin/true")); answer.ExitCode != 0 {
		check(fmt.Errorf("exec in %s: exit code %d", id, answer.ExitCode))
	}
	return microseconds(start)
}

func (c *client) status(id string) *cri.ContainerStatus {
	return checked(call(c, c.ContainerStatus, &cri.ContainerStatusRequest{ContainerId: id})).Status
}

// Returns the process of a container's program, from the CRI's debugging information.
func (c *client) pidOf(id string) int {
	return pidIn(checked(call(c, c.ContainerStatus, &cri.ContainerStatusRequest{ContainerId: id, Verbose: true})).Info)
}

// Returns the process of a pod's own container.
func (c *client) pidOfPod(p pod) int {
	return pidIn(checked(call(c, c.PodSandboxStatus, &cri.PodSandboxStatusRequest{PodSandboxId: p.id, Verbose: true})).Info)
}

func pidIn(info map[string]string) int {
	var told struct {
		Pid int `json:"pid"`
	}
	check(json.Unmarshal([]byte(info["info"]), &told))
	if told.Pid == 0 {
		check(fmt.Errorf("no pid in %.200s", info["info"]))
	}
	return told.Pid
}
