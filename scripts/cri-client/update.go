package main

import (
	"context"
	"encoding/json"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/anypb"
)

// Sets the memory limit of a running task.
func update(o options) error {
	connection, err := dial(o.address)
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), o.patience)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", o.namespace)
	resources, err := json.Marshal(map[string]any{"memory": map[string]any{"limit": o.memory}})
	if err != nil {
		return err
	}
	_, err = tasks.NewTasksClient(connection).Update(ctx, &tasks.UpdateTaskRequest{
		ContainerID: o.id,
		Resources: &anypb.Any{
			TypeUrl: "types.containerd.io/opencontainers/runtime-spec/1/LinuxResources",
			Value:   resources,
		},
	})
	return err
}
