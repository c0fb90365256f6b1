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

// Returns the configuration of a pod in the host's network namespace.
func (c *client) podConfig() *cri.PodSandboxConfig {
	name := fmt.Sprintf("pod-%d-%d", os.Getpid(), c.serial.Add(1))
	return &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Uid: name, Namespace: "test"},
		LogDirectory: filepath.Join(c.directory, name),
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent: c.cgroup,
			SecurityContext: &cri.LinuxSandboxSecurityContext{
				NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_CONTAINER},
			},
		},
	}
}

func (c *client) runPod(config *cri.PodSandboxConfig) pod {
	check(os.MkdirAll(config.LogDirectory, 0o755))
	answer := checked(call(c, c.RunPodSandbox, &cri.RunPodSandboxRequest{Config: config, RuntimeHandler: c.handler}))
	return pod{config, answer.PodSandboxId}
}

var sleeps = []string{"/bin/sleep", "1000000"}

// Creates a container that runs this command.
func (c *client) create(p pod, words []string) string {
	name := fmt.Sprintf("c%d", c.serial.Add(1))
	namespaces := p.config.Linux.SecurityContext.NamespaceOptions
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
	request := &cri.CreateContainerRequest{PodSandboxId: p.id, Config: config, SandboxConfig: p.config}
	return checked(call(c, c.CreateContainer, request)).ContainerId
}

func (c *client) start(id string) {
	checked(call(c, c.StartContainer, &cri.StartContainerRequest{ContainerId: id}))
}

// Returns a container that runs.
func (c *client) running(p pod) string {
	id := c.create(p, sleeps)
	c.start(id)
	return id
}

// Stops a container at once.
func (c *client) stop(id string) {
	checked(call(c, c.StopContainer, &cri.StopContainerRequest{ContainerId: id}))
}

func (c *client) remove(id string) {
	checked(call(c, c.RemoveContainer, &cri.RemoveContainerRequest{ContainerId: id}))
}

func (c *client) stopPod(p pod) {
	checked(call(c, c.StopPodSandbox, &cri.StopPodSandboxRequest{PodSandboxId: p.id}))
}

func (c *client) removePod(p pod) {
	defer os.RemoveAll(p.config.LogDirectory)
	checked(call(c, c.RemovePodSandbox, &cri.RemovePodSandboxRequest{PodSandboxId: p.id}))
}

// Removes a pod and everything in it, in any state.
func (c *client) drop(p pod) {
	c.stopPod(p)
	c.removePod(p)
}

// Runs /bin/true in a container; returns how long that took, in microseconds.
func (c *client) execIn(id string) float64 {
	start := time.Now()
	request := &cri.ExecSyncRequest{ContainerId: id, Cmd: []string{"/bin/true"}, Timeout: 10}
	if answer := checked(call(c, c.ExecSync, request)); answer.ExitCode != 0 {
		check(fmt.Errorf("exec in %s: exit code %d", id, answer.ExitCode))
	}
	return microseconds(start)
}

// Returns the process of a container's program, from the CRI's debugging information.
func (c *client) pidOf(id string) int {
	info := checked(call(c, c.ContainerStatus, &cri.ContainerStatusRequest{ContainerId: id, Verbose: true})).Info["info"]
	var told struct {
		Pid int `json:"pid"`
	}
	check(json.Unmarshal([]byte(info), &told))
	if told.Pid == 0 {
		check(fmt.Errorf("no pid in %.200s", info))
	}
	return told.Pid
}
