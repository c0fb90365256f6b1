//! Plans for the checks: a configuration, a caller and a request, with and without optional parts.

use dayfly_plan::{
    Caller, Console, Error, ExecAgent, ExecRequest, Execution, FastPaths, GivenRoot, Kernel, Plan,
    ProgramStart, Request,
};
use rootfs::Mode;
use serde_json::{Value, json};
use spec::{Namespace, NamespaceKind, NumberSet, Process, Spec};
use sys::clone::CloneFlags;

/// An input to compile.
pub struct Case {
    config: Value,
    caller: Caller,
    version: (u32, u32),
    fast_paths: FastPaths,
    program_start: ProgramStart,
    wait_for_start: bool,
    no_pivot: bool,
    blank: bool,
    attended: bool,
    start_cpus: bool,
    layers: Option<Mode>,
    unit: bool,
    legacy: bool,
    exec: Option<CloneFlags>,
}

impl Case {
    /// Returns the usual request of engines: a container with its own namespaces that waits for `start`.
    pub fn new() -> Self {
        let kill = json!(["CAP_KILL"]);
        let config = json!({
            "ociVersion": "1.3.0",
            "root": { "path": "rootfs" },
            "hostname": "host",
            "process": {
                "cwd": "/", "args": ["/bin/true"], "noNewPrivileges": true,
                "capabilities": { "bounding": kill, "effective": kill, "permitted": kill },
            },
            "mounts": [
                { "destination": "/proc", "type": "proc" },
                { "destination": "/dev", "type": "tmpfs" },
                { "destination": "/sys", "type": "sysfs" },
                { "destination": "/sys/fs/cgroup", "type": "cgroup" },
                { "destination": "/data", "source": "/srv", "options": ["rbind"] },
            ],
            "linux": {
                "maskedPaths": ["/proc/acpi", "/sys/firmware"],
                "readonlyPaths": ["/proc/sys"],
                "namespaces": (["mount", "pid", "network", "ipc", "uts", "cgroup"]
                    .map(|kind| json!({ "type": kind }))),
            },
        });
        Self {
            config,
            caller: Caller::default(),
            version: (6, 18),
            fast_paths: FastPaths::all(),
            program_start: ProgramStart::Executed,
            wait_for_start: true,
            no_pivot: false,
            blank: true,
            attended: false,
            start_cpus: false,
            layers: None,
            unit: false,
            legacy: false,
            exec: None,
        }
    }

    /// Changes the configuration.
    pub fn with(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.config);
        self
    }

    /// Sets a value in the configuration, at `process/rlimits` for example.
    pub fn set(self, place: &str, value: Value) -> Self {
        self.with(|config| {
            let mut at = config;
            for key in place.split('/') {
                at = &mut at[key];
            }
            *at = value;
        })
    }

    /// Adds a namespace, new or joined.
    pub fn namespace(self, kind: &str, path: Option<&str>) -> Self {
        self.with(|config| {
            let list = config["linux"]["namespaces"].as_array_mut().unwrap();
            list.retain(|namespace| namespace["type"] != kind);
            list.push(match path {
                Some(path) => json!({ "type": kind, "path": path }),
                None => json!({ "type": kind }),
            });
        })
    }

    /// Adds a user namespace for the container.
    pub fn in_user_namespace(self, outside: u32, size: u32) -> Self {
        let map = json!([{ "containerID": 0, "hostID": outside, "size": size }]);
        let case = self.namespace("user", None).set("linux/uidMappings", map.clone());
        case.set("linux/gidMappings", map)
    }

    /// Makes a container whose program a template forks, inside the template's user and PID namespaces.
    pub fn forked(mut self) -> Self {
        self.program_start = ProgramStart::Forked;
        self.namespace("user", Some("/proc/1/ns/user"))
    }

    /// Makes a template.
    pub fn reaped(mut self) -> Self {
        self.program_start = ProgramStart::Reaped;
        self.in_user_namespace(100_000, 65_536)
    }

    /// Sets the caller to a user who maps only its own ids.
    pub fn rootless(mut self) -> Self {
        self.caller = Caller { uid: 1000, gid: 1000, ..Caller::default() };
        self.in_user_namespace(1000, 1)
    }

    /// Makes a container with hooks for a rootless caller.
    pub fn hooked_by_user() -> Self {
        Self::new().hooks(&["createRuntime", "createContainer"]).rootless()
    }

    /// Sets the caller to uid 0 of a user namespace other than the host's.
    pub fn nested(mut self) -> Self {
        self.caller.nested = true;
        self
    }

    /// Runs the program at once.
    pub fn run(mut self) -> Self {
        self.wait_for_start = false;
        self
    }

    /// Uses a root filesystem from layers.
    pub fn layered(mut self, mode: Mode) -> Self {
        self.layers = Some(mode);
        self
    }

    /// Uses a scope of systemd.
    pub fn in_scope(mut self) -> Self {
        self.unit = true;
        self
    }

    /// Compiles a process that joins a container with these namespaces.
    pub fn exec(mut self, namespaces: CloneFlags) -> Self {
        self.exec = Some(namespaces);
        self
    }

    /// Adds hooks of these kinds.
    pub fn hooks(self, kinds: &[&str]) -> Self {
        kinds.iter().fold(self, |case, kind| {
            case.set(&format!("hooks/{kind}"), json!([{ "path": "/bin/hook" }]))
        })
    }

    /// Adds a filter that denies one call, or notifies a listener of it.
    pub fn filter(self, listens: bool) -> Self {
        let action = if listens { "SCMP_ACT_NOTIFY" } else { "SCMP_ACT_ERRNO" };
        let mut profile = json!({
            "defaultAction": "SCMP_ACT_ALLOW",
            "syscalls": [{ "names": ["ptrace"], "action": action }],
        });
        if listens {
            profile["listenerPath"] = json!("/run/agent");
        }
        self.set("linux/seccomp", profile)
    }

    /// Compiles the case.
    pub fn plan(&self) -> Result<Plan, Error> {
        let text = self.config.to_string();
        let mut spec = Spec::parse(&text).unwrap();
        spec::validate(&spec)?;
        // The runtime adds the template's PID namespace to a valid configuration, which has one of its own.
        if let (ProgramStart::Forked, Some(linux)) = (self.program_start, &mut spec.linux) {
            let path = Some("/proc/1/ns/pid".into());
            linux.namespaces.push(Namespace { kind: NamespaceKind::Pid, path });
        }
        match self.exec {
            Some(namespaces) => self.plan_exec(&spec, namespaces),
            None => self.plan_container(&spec),
        }
    }

    fn kernel(&self) -> Kernel {
        let seccomp = seccomp::Support::default();
        Kernel { version: self.version, seccomp, fast_paths: self.fast_paths }
    }

    fn plan_container(&self, spec: &Spec<'_>) -> Result<Plan, Error> {
        let terminal = spec.process.as_ref().is_some_and(|process| process.terminal);
        let recipe = self.layers.map(|mode| rootfs::Recipe {
            mode,
            layers: rootfs::Layers::of_store("/layers/a\n/layers/b\n").unwrap(),
            upper: rootfs::Upper::Directory,
            directory: c"/store/containers/test".into(),
            root: None,
            volatile: true,
            label: None,
            user_xattr: false,
            foreign: None,
            files: Vec::new(),
        });
        let request = Request {
            rootfs: recipe.as_ref().map(|recipe| GivenRoot::layered(recipe, "/store")),
            program_start: self.program_start,
            wait_for_start: self.wait_for_start,
            attended: self.attended,
            no_pivot: self.no_pivot,
            blank: self.blank,
            console: terminal.then_some(Console::Socket("/run/console")),
            cgroup: Some(self.location()),
            rootless: self.caller.is_rootless(),
            caller: self.caller.clone(),
            own_cpus: self.start_cpus.then(|| NumberSet::parse("0-3").unwrap()),
            ..Request::new("test", "/bundle", self.kernel())
        };
        dayfly_plan::compile(spec, &request)
    }

    fn plan_exec(&self, spec: &Spec<'_>, namespaces: CloneFlags) -> Result<Plan, Error> {
        let process: &Process<'_> = spec.process.as_ref().unwrap();
        let profile = spec.linux.as_ref().and_then(|linux| linux.seccomp);
        let filter =
            profile.map(|seccomp| dayfly_plan::compile_seccomp(seccomp.get(), &self.kernel()));
        let agent = ExecAgent { socket: "/run/agent", metadata: "", init: 7, state_head: "{" };
        let request = ExecRequest {
            cgroup: Some(self.location()),
            execution: Execution::default(),
            filter: filter.transpose()?,
            agent: Some(agent),
            console: process.terminal.then_some(Console::Given),
            caller: self.caller.clone(),
            fast_paths: self.fast_paths,
            memory_is_limited: self.attended,
            ..ExecRequest::new("test", 7, namespaces)
        };
        dayfly_plan::compile_exec(process, request)
    }

    fn location(&self) -> cgroup::Location {
        let root = String::from(cgroup::MOUNT_ROOT);
        let hierarchy = |list: &str| cgroup::Hierarchy {
            controllers: cgroup::Controllers::from_list(list),
            mount: format!("/sys/fs/cgroup/{list}"),
        };
        let hierarchies = match self.legacy {
            true => cgroup::Hierarchies {
                root,
                unified: None,
                legacy: ["cpu,cpuacct", "memory"].map(hierarchy).into(),
            },
            false => cgroup::Hierarchies { unified: Some(root.clone()), root, legacy: Vec::new() },
        };
        if self.unit {
            use cgroup::systemd::{Instance, Unit};
            let unit = Unit::parse(Some("machine.slice:test:1"), "test", Instance::System);
            return cgroup::Location::of_unit(&hierarchies, unit.unwrap());
        }
        cgroup::Location::resolve(&hierarchies, Some("/test"), "test").unwrap()
    }

    /// Returns a random case; the same seed gives the same case.
    pub fn any(seed: u32) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9) | 1);
        let mut case = match dice.roll(4) {
            0 => Self::new().rootless(),
            1 => Self::new().in_user_namespace(100_000, 65_536),
            _ => Self::new(),
        };
        if dice.roll(6) == 0 {
            case = case.nested();
        }
        for kind in ["mount", "pid", "network", "ipc", "uts", "cgroup", "user", "time"] {
            match dice.roll(12) {
                0 => {
                    case = case.with(|config| {
                        let list = config["linux"]["namespaces"].as_array_mut().unwrap();
                        list.retain(|namespace| namespace["type"] != kind);
                    });
                }
                1 => case = case.namespace(kind, Some("/proc/7/ns/x")),
                2 if kind != "user" => case = case.namespace(kind, None),
                _ => {}
            }
        }
        let parts: [fn(Self) -> Self; 24] = [
            Self::detached,
            |case| case.filter(false),
            |case| case.filter(true),
            |case| case.hooks(&["prestart", "createRuntime"]),
            |case| case.hooks(&["createContainer"]),
            |case| case.hooks(&["startContainer"]),
            |case| case.set("process/noNewPrivileges", json!(false)),
            |case| case.set("process/capabilities", Value::Null),
            |case| case.set("process/terminal", json!(true)),
            |case| case.set("process/cwd", json!("/sys/work")),
            |case| case.set("process/oomScoreAdj", json!(100)),
            |case| case.set("process/apparmorProfile", json!("tight")),
            |case| case.set("process/selinuxLabel", json!("a:b:c:s0")),
            |case| case.set("process/user", json!({ "uid": 1, "gid": 1 })),
            |case| {
                case.set(
                    "process/rlimits",
                    json!([limit("RLIMIT_NOFILE", 10), limit("RLIMIT_CORE", 0)]),
                )
            },
            |case| case.set("root/readonly", json!(true)),
            |case| case.set("linux/readonlyPaths", json!(["/", "/sys", "/dev"])),
            |case| case.set("linux/maskedPaths", json!(["/data", "/sys/fs", "/deep"])),
            |case| case.set("linux/rootfsPropagation", json!("shared")),
            |case| case.mount(json!({ "destination": "/deep/sys", "type": "sysfs" })),
            |case| case.mount(json!({ "destination": "/ro", "type": "tmpfs", "options": ["ro"] })),
            |case| {
                case.mount(
                    json!({ "destination": "/up", "type": "tmpfs", "options": ["tmpcopyup"] }),
                )
            },
            |case| case.mount(json!({ "destination": "/x", "type": "ext4", "source": "/dev/x" })),
            |case| case.mount(json!({ "destination": "/proc", "options": ["remount", "ro"] })),
        ];
        for part in parts {
            if dice.roll(6) == 0 {
                case = part(case);
            }
        }
        case.version = [(5, 12), (6, 7), (6, 18)][dice.roll(3)];
        if dice.roll(4) == 0 {
            case.fast_paths = FastPaths::empty();
        }
        if dice.roll(5) == 0 {
            let modes = [Mode::Fd, Mode::PerLayer, Mode::Copy];
            case.layers = Some(modes[dice.roll(3)]);
        }
        if dice.roll(5) == 0 {
            let namespaces = case.config["linux"]["namespaces"].as_array().unwrap();
            let flag = |kind: &Value| match kind["type"].as_str().unwrap() {
                "mount" => CloneFlags::NEWNS,
                "pid" => CloneFlags::NEWPID,
                "network" => CloneFlags::NEWNET,
                "ipc" => CloneFlags::NEWIPC,
                "uts" => CloneFlags::NEWUTS,
                "user" => CloneFlags::NEWUSER,
                "time" => CloneFlags::NEWTIME,
                _ => CloneFlags::NEWCGROUP,
            };
            case.exec = Some(namespaces.iter().map(flag).collect());
        }
        case.program_start = match dice.roll(8) {
            0 => ProgramStart::Reaped,
            1 => ProgramStart::Forked,
            _ => ProgramStart::Executed,
        };
        for flag in [
            &mut case.wait_for_start,
            &mut case.no_pivot,
            &mut case.blank,
            &mut case.attended,
            &mut case.start_cpus,
            &mut case.unit,
            &mut case.legacy,
        ] {
            *flag ^= dice.roll(4) == 0;
        }
        case
    }

    /// Removes the mount namespace, and adds a tmpfs that becomes read-only.
    pub fn detached(self) -> Self {
        let tmpfs = json!({ "destination": "/t", "type": "tmpfs", "options": ["ro"] });
        let case = self.with(|config| {
            let linux = config["linux"].as_object_mut().unwrap();
            linux.remove("maskedPaths");
            linux.remove("readonlyPaths");
            let list = linux["namespaces"].as_array_mut().unwrap();
            list.retain(|namespace| namespace["type"] != "mount");
        });
        case.mount(tmpfs)
    }

    /// Adds a mount.
    pub fn mount(self, mount: Value) -> Self {
        self.with(|config| config["mounts"].as_array_mut().unwrap().push(mount))
    }
}

/// Returns an entry of `process.rlimits`.
pub fn limit(kind: &str, number: u64) -> Value {
    json!({ "type": kind, "soft": number, "hard": number })
}

/// Marsaglia's xorshift.
struct Dice(u32);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        (self.0 >> 8) as usize % sides
    }
}
