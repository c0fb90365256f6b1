//! What Docker's and Podman's users type and dayfly does not have, with advice. docs/from-docker.md has all of it;
//! `tests/tests/from_docker.rs` runs that page.

/// Commands, with advice.
pub static COMMANDS: &[(&[&str], &str)] = &[
    (
        &["build", "buildx", "builder", "bake", "commit", "manifest"],
        "dayfly makes no images: \"buildah bud\" and \"buildah push IMAGE oci:DIR\" do, \"dayfly image import DIR\" stores them",
    ),
    (&["compose", "stack", "service", "swarm", "node"], BY_ENGINE),
    (&["pod", "kube", "play", "generate", "quadlet", "machine", "context", "plugin"], BY_ENGINE),
    (
        &["network"],
        "dayfly makes no networks: --network host, container:ID or ns:PATH; podman has others",
    ),
    (
        &["volume", "volumes"],
        "dayfly keeps no volumes: run -v /DIR:/DEST mounts a directory of the host; podman has named ones",
    ),
    (
        &["secret", "config"],
        "dayfly keeps no secrets: run -v /FILE:/run/secrets/NAME:ro mounts a file of the host",
    ),
    (
        &["push"],
        "\"dayfly image export IMAGE DIR\" and \"skopeo copy oci:DIR docker://IMAGE\" push an image",
    ),
    (
        &["login", "logout"],
        "\"dayfly image pull\" takes the passwords of podman login and docker login",
    ),
    (&["search"], "\"podman search\" searches registries; \"dayfly image pull\" gets an image"),
    (
        &["restart"],
        "\"dayfly run\" starts a new container; a service manager, such as systemd, can restart one",
    ),
    (&["rename"], "a container keeps its id: run --name ID chooses it"),
    (
        &["attach"],
        "\"dayfly logs -f\" follows the output of run -d; \"dayfly exec -it CONTAINER sh\" runs a shell",
    ),
    (&["port"], PORTS),
    (
        &["info", "system"],
        "\"dayfly features\" and \"dayfly host check\" show them; \"dayfly image gc\" removes unused images",
    ),
    (&["prune"], "\"dayfly image gc\" removes unused images; \"dayfly delete\" a container"),
    (
        &["diff", "export"],
        "changes are in the store: \"dayfly image inspect\"; \"podman diff\" and \"podman export\" show them",
    ),
    (&["mount", "unmount", "umount"], "\"dayfly rootfs mount\" assembles an image's files"),
    (&["healthcheck"], "dayfly has no process that stays; \"dayfly exec\" runs a check"),
    (&["auto-update", "farm", "trust", "scout", "model", "init", "sbom"], BY_ENGINE),
];

const BY_ENGINE: &str = "an engine that runs dayfly has it: podman --runtime dayfly";
const PORTS: &str = "dayfly publishes no ports; --network host shares those of the host";

/// Options of `run`, with advice.
pub static OPTIONS_OF_RUN: &[(&[&str], &str)] = &[
    (&["p", "publish", "P", "publish-all", "expose"], PORTS),
    (&["net"], "did you mean --network?"),
    (&["pull"], "\"dayfly image pull\" gets an image"),
    (&["restart"], "dayfly has no process that stays; a service manager can restart a container"),
    (
        &["privileged"],
        "--cap-add, --device and --security-opt seccomp=unconfined give single rights; podman --runtime dayfly gives all",
    ),
    (&["log-driver", "log-opt"], "-d keeps the output for \"dayfly logs\", up to --log-size"),
    (&["gpus"], "\"podman --runtime dayfly run --device nvidia.com/gpu=all\" takes devices by CDI"),
];
