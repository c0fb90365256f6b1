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
    (&["network"], NETWORKS),
    (&["volume"], VOLUMES),
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
    (&["untag"], "\"dayfly image rm NAME\" removes a name"),
    (&["healthcheck"], "dayfly has no process that stays; \"dayfly exec\" runs a check"),
    (&["auto-update", "farm", "trust", "scout", "model", "init", "sbom"], BY_ENGINE),
];

const BY_ENGINE: &str = "an engine that runs dayfly has it: podman --runtime dayfly";
const NETWORKS: &str = "dayfly makes no networks: run --network has host, bridge, container:ID and ns:PATH; podman has others";
const VOLUMES: &str = "dayfly keeps no volumes: run -v /DIR:/DEST mounts a directory of the host; podman has named ones";
const RESTART: &str = "dayfly has no process that stays; a service manager can restart a container";
const PORTS: &str =
    "run -p PORT:PORT publishes a port, as root with CNI plugins; --network host shares all";

/// Options by command, with advice.
pub static OPTIONS: &[(&str, &[&str], &str)] = &[
    ("run", &["P", "publish-all", "expose"], PORTS),
    ("run", &["pull"], "\"dayfly image pull\" gets an image"),
    ("run", &["platform", "arch", "os", "variant"], "\"dayfly image pull --platform\" chooses it"),
    ("run", &["restart"], RESTART),
    ("update", &["restart"], RESTART),
    (
        "run",
        &["privileged"],
        "--cap-add, --device and --security-opt seccomp=unconfined give single rights; podman --runtime dayfly gives all",
    ),
    (
        "run",
        &["log-driver", "log-opt"],
        "-d keeps the output for \"dayfly logs\", up to --log-size",
    ),
    (
        "run",
        &["gpus"],
        "\"podman --runtime dayfly run --device nvidia.com/gpu=all\" takes devices by CDI",
    ),
    ("run", &["link", "ip", "ip6", "mac-address", "network-alias", "net-alias"], NETWORKS),
    ("run", &["volumes-from", "volume-driver"], VOLUMES),
    (
        "run",
        &["health-cmd", "health-interval", "health-retries", "health-timeout", "no-healthcheck"],
        "dayfly has no process that stays; \"dayfly exec\" runs a check",
    ),
    ("run", &["stop-timeout"], "\"dayfly stop --time TIME\" sets it"),
    ("run", &["label-file"], "--label NAME=VALUE sets a label"),
    (
        "run",
        &["a", "attach", "sig-proxy", "detach-keys", "q", "quiet"],
        "leave it out: the program has the caller's input, output and signals",
    ),
    (
        "run",
        &[
            "pod",
            "replace",
            "systemd",
            "secret",
            "storage-opt",
            "runtime",
            "isolation",
            "domainname",
            "umask",
            "tz",
            "device-cgroup-rule",
            "device-read-bps",
            "device-write-bps",
            "device-read-iops",
            "device-write-iops",
            "blkio-weight-device",
            "memory-swappiness",
            "oom-kill-disable",
            "kernel-memory",
            "cgroup-parent",
            "cpu-rt-period",
            "cpu-rt-runtime",
            "uidmap",
            "gidmap",
            "userns-remap",
        ],
        BY_ENGINE,
    ),
    (
        "exec",
        &["privileged", "env-file", "detach-keys"],
        "-e, -w, -u and --cap set single properties",
    ),
    (
        "ps",
        &["filter", "l", "latest", "n", "last", "s", "size"],
        "\"dayfly list --format json\" prints all containers, and jq selects",
    ),
    (
        "list",
        &["filter", "l", "latest", "n", "last", "s", "size"],
        "--format json prints all containers, and jq selects",
    ),
    (
        "logs",
        &["since", "until", "t", "timestamps", "details"],
        "the output is kept as it was written, without times; --tail N prints its last lines",
    ),
    (
        "stop",
        &["s", "signal"],
        "run --stop-signal sets it, and \"dayfly kill -s SIGNAL\" sends one",
    ),
    ("rm", &["a", "all", "l", "link"], "\"dayfly rm $(dayfly ps -q)\" names all containers"),
    ("inspect", &["s", "size", "type"], "the output is JSON, from which jq selects"),
    ("stats", &["a", "all", "format", "no-trunc"], "\"dayfly events --stats --all\" prints JSON"),
    (
        "start",
        &["a", "attach", "i", "interactive"],
        "\"dayfly run\" starts an image in the foreground",
    ),
];
