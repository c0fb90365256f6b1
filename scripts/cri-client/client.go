package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A connection to the CRI, and the settings of all pods.
type client struct {
	options
	cri.RuntimeServiceClient
	serial atomic.Int64
}

func dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

func connect(o options) (*client, error) {
	connection, err := dial(o.address)
	if err != nil {
		return nil, err
	}
	return &client{options: o, RuntimeServiceClient: cri.NewRuntimeServiceClient(connection)}, nil
}

// Returns a context with the time limit of a call.
func (c *client) in() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), c.patience)
}

// A pod: its configuration, which its containers' calls need, and its id.
type pod struct {
	config *cri.PodSandboxConfig
	id     string
}

// Returns the configuration of a pod in the host's network namespace.
func (c *client) podConfig(change ...func(*cri.PodSandboxConfig)) *cri.PodSandboxConfig {
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
	for _, change := range change {
		change(config)
	}
	return config
}

func (c *client) runPod(config *cri.PodSandboxConfig) (pod, error) {
	if err := os.MkdirAll(config.LogDirectory, 0o755); err != nil {
		return pod{}, err
	}
	ctx, cancel := c.in()
	defer cancel()
	answer, err := c.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config, RuntimeHandler: c.handler})
	if err != nil {
		return pod{}, fmt.Errorf("RunPodSandbox: %w", err)
	}
	return pod{config, answer.PodSandboxId}, nil
}

// Returns the configuration of a container that runs this command.
func (c *client) containerConfig(p pod, words []string, change ...func(*cri.ContainerConfig)) *cri.ContainerConfig {
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
	for _, change := range change {
		change(config)
	}
	return config
}

func (c *client) create(p pod, config *cri.ContainerConfig) (string, error) {
	ctx, cancel := c.in()
	defer cancel()
	answer, err := c.CreateContainer(ctx, &cri.CreateContainerRequest{PodSandboxId: p.id, Config: config, SandboxConfig: p.config})
	if err != nil {
		return "", fmt.Errorf("CreateContainer: %w", err)
	}
	return answer.ContainerId, nil
}

func (c *client) start(id string) error {
	ctx, cancel := c.in()
	defer cancel()
	if _, err := c.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: id}); err != nil {
		return fmt.Errorf("StartContainer: %w", err)
	}
	return nil
}

func (c *client) stop(id string, grace int64) error {
	ctx, cancel := c.in()
	defer cancel()
	if _, err := c.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: id, Timeout: grace}); err != nil {
		return fmt.Errorf("StopContainer: %w", err)
	}
	return nil
}

func (c *client) remove(id string) error {
	ctx, cancel := c.in()
	defer cancel()
	if _, err := c.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: id}); err != nil {
		return fmt.Errorf("RemoveContainer: %w", err)
	}
	return nil
}

func (c *client) stopPod(p pod) error {
	ctx, cancel := c.in()
	defer cancel()
	if _, err := c.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: p.id}); err != nil {
		return fmt.Errorf("StopPodSandbox: %w", err)
	}
	return nil
}

func (c *client) removePod(p pod) error {
	ctx, cancel := c.in()
	defer cancel()
	defer os.RemoveAll(p.config.LogDirectory)
	if _, err := c.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.id}); err != nil {
		return fmt.Errorf("RemovePodSandbox: %w", err)
	}
	return nil
}

// Removes a pod and everything in it, in any state. CRI-O would wait 10 s for each container's end.
func (c *client) drop(p pod) error {
	if c.monitor != shims {
		ctx, cancel := c.in()
		defer cancel()
		filter := &cri.ContainerFilter{PodSandboxId: p.id}
		running, err := c.ListContainers(ctx, &cri.ListContainersRequest{Filter: filter})
		if err != nil {
			return err
		}
		for _, container := range running.Containers {
			if err := c.stop(container.Id, 0); err != nil {
				return err
			}
		}
	}
	if err := c.stopPod(p); err != nil {
		return err
	}
	return c.removePod(p)
}

func (c *client) exec(id string, seconds int64, words ...string) (*cri.ExecSyncResponse, error) {
	if c.monitor == vms && len(words) > 1 && words[0] != "sleep" {
		words = staying(words)
	}
	ctx, cancel := c.in()
	defer cancel()
	return c.ExecSync(ctx, &cri.ExecSyncRequest{ContainerId: id, Cmd: words, Timeout: seconds})
}

// Returns the output of ExecSync without the last newline; an exit code is an error.
func (c *client) output(id string, words ...string) (string, error) {
	answer, err := c.exec(id, 0, words...)
	if err != nil {
		return "", fmt.Errorf("ExecSync: %w", err)
	}
	if answer.ExitCode != 0 {
		return "", fmt.Errorf("exit code %d: %s", answer.ExitCode, answer.Stderr)
	}
	return strings.TrimSuffix(string(answer.Stdout), "\n"), nil
}

func (c *client) status(id string) (*cri.ContainerStatus, error) {
	ctx, cancel := c.in()
	defer cancel()
	answer, err := c.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return nil, fmt.Errorf("ContainerStatus: %w", err)
	}
	return answer.Status, nil
}

// Returns the process of a container's program, from the CRI's debugging information.
func (c *client) pidOf(id string) (int, error) {
	ctx, cancel := c.in()
	defer cancel()
	answer, err := c.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		return 0, err
	}
	return pidIn(answer.Info)
}

// Returns the process of a pod's own container.
func (c *client) pidOfPod(p pod) (int, error) {
	ctx, cancel := c.in()
	defer cancel()
	answer, err := c.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: p.id, Verbose: true})
	if err != nil {
		return 0, err
	}
	return pidIn(answer.Info)
}

func pidIn(info map[string]string) (int, error) {
	var told struct {
		Pid int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(info["info"]), &told); err != nil {
		return 0, err
	}
	if told.Pid == 0 {
		return 0, fmt.Errorf("no pid in %.200s", info["info"])
	}
	return told.Pid, nil
}
