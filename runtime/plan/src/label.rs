//! Names of steps for traces, errors and `dayfly plan`.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ffi::CStr;

use spec::{memory_policy, mount_options, scheduling};
use sys::clone::CloneFlags;
use sys::mount::MountAttr;
use trace::{Label, PARENT, Phase, Steps};

use crate::Plan;
use crate::step::{
    BindSource, CloneTree, DeviceSource, InitStep, Memory, MountFs, NumberSet, Parameter,
    ParentStep, ScopeState, SecurityModule, Target,
};

/// The name of init's row on a time line.
pub const INIT: &str = "init";
/// The name of the network maker's row on a time line.
pub const NETWORK: &str = "network";

/// Returns the labels of the parent's and init's steps, in order.
pub fn labels(plan: &Plan) -> (Vec<Label<'_>>, Vec<Label<'_>>) {
    (
        plan.parent.iter().map(Labelled::label).collect(),
        plan.init.iter().map(Labelled::label).collect(),
    )
}

/// The parent's steps, followed by init's.
impl Steps for Plan {
    fn label(&self, step: usize) -> Option<Label<'_>> {
        let init = || self.init.get(step.checked_sub(self.parent.len())?).map(Labelled::label);
        self.parent.get(step).map(Labelled::label).or_else(init)
    }
}

fn label<'a>(phase: Phase, name: &'static str, object: impl Into<Cow<'a, str>>) -> Label<'a> {
    Label { phase, name, object: object.into(), awaits: None }
}

fn wait(name: &'static str, object: &'static str, awaits: &'static str) -> Label<'static> {
    Label { phase: Phase::Sync, name, object: object.into(), awaits: Some(awaits) }
}

fn text(string: &CStr) -> Cow<'_, str> {
    // Faster than a lossy conversion.
    string.to_str().map_or_else(|_| string.to_string_lossy(), Cow::Borrowed)
}

/// Returns a path as seen in the container.
fn inside(path: &CStr) -> String {
    ["/", &text(path)].concat()
}

/// A step that has a label.
pub trait Labelled {
    /// Returns phase, name and object of the step.
    fn label(&self) -> Label<'_>;
}

impl Labelled for ParentStep {
    fn label(&self) -> Label<'_> {
        match self {
            Self::Undumpable => label(Phase::Security, "clear dumpable", ""),
            Self::OpenProc => label(Phase::Security, "open proc", "/proc"),
            Self::RequireModule(module) => label(
                Phase::Security,
                "require module",
                match module {
                    SecurityModule::AppArmor => "AppArmor",
                    SecurityModule::SeLinux => "SELinux",
                },
            ),
            Self::MakeUserNamespace { maps, .. } => label(
                Phase::Mounts,
                "make user namespace",
                maps.uid_map.trim_end().replace('\n', ", "),
            ),
            Self::CloneTree(tree) => label(Phase::Mounts, "clone tree", taken_tree(tree)),
            Self::LeaveOutPins => label(Phase::Mounts, "skip pinned", "mount namespaces"),
            Self::MakeTree { filesystem, .. } => {
                label(Phase::Mounts, "make tree", describe(filesystem))
            }
            Self::CloneDevice(device) => label(Phase::Mounts, "clone device", taken_device(device)),
            Self::MakeNodes(made) => {
                let names: Vec<Cow<'_, str>> =
                    made.nodes.iter().map(|own| text(own.node.name)).collect();
                label(Phase::Mounts, "make nodes", names.join(" "))
            }
            Self::OpenRoot { .. } => label(Phase::Platform, "open root", "of init"),
            Self::MapLayers { user_namespace } => {
                let how = if user_namespace.is_some() { "idmap" } else { "" };
                label(Phase::Mounts, "map layers", how)
            }
            Self::OpenLayers => label(Phase::Mounts, "open layers", ""),
            Self::MakeUpper => label(Phase::Mounts, "make upper", ""),
            Self::AssembleRootfs => label(Phase::Mounts, "assemble rootfs", ""),
            Self::DetachLayers => label(Phase::Mounts, "detach layers", ""),
            Self::CopyLayers => label(Phase::Mounts, "copy layers", ""),
            Self::OpenNamespace { path, kind, .. } => {
                label(Phase::Platform, "open namespace", format!("{} {}", names(*kind), text(path)))
            }
            Self::ConnectConsole { path } => label(Phase::Platform, "connect console", text(path)),
            Self::CreateCgroup => label(Phase::Cgroups, "enter cgroup", ""),
            Self::EnterPidNamespace { .. } => label(Phase::Platform, "enter pid namespace", ""),
            Self::EnterNamespace { kind, .. } => {
                label(Phase::Platform, "enter namespace", names(*kind))
            }
            Self::RunOn(cpus) => label(Phase::Platform, "run on cpus", cpus.to_string()),
            Self::Clone { flags, intermediate, memory, time, .. } => {
                let by = if intermediate.is_some() { " by intermediate" } else { "" };
                let how = if *memory == Memory::Shared { " in shared memory" } else { "" };
                let time = match time {
                    None => CloneFlags::empty(),
                    Some(_) => CloneFlags::NEWTIME,
                };
                label(Phase::Bootstrap, "clone", [&*names(*flags | time), by, how].concat())
            }
            Self::ReleaseScope { .. } => label(Phase::Cgroups, "release scope", ""),
            Self::AwaitScope(state) => {
                let state = match state {
                    ScopeState::Accepted => "accepted",
                    ScopeState::Started => "started",
                };
                label(Phase::Cgroups, "await scope", state)
            }
            Self::MakeNetwork => label(Phase::Platform, "make network", ""),
            Self::MoveNetDevices { devices, .. } => {
                let names: Vec<&str> = devices.iter().map(|device| &*device.name).collect();
                label(Phase::Platform, "move network devices", names.join(", "))
            }
            Self::MapIds(maps) => {
                label(Phase::Platform, "map ids", maps.uid_map.trim_end().replace('\n', ", "))
            }
            Self::VerifyIds(_) => label(Phase::Platform, "verify ids", ""),
            Self::MapOwnId(maps) => label(Phase::Platform, "map own id", maps.uid_map.trim_end()),
            Self::MapIdsThrough([uid, _]) => label(
                Phase::Platform,
                "map ids through newuidmap",
                uid.map.trim_end().replace('\n', ", "),
            ),
            Self::LimitResources(limits) => {
                label(Phase::Security, "limit resources", format!("{}", limits.len()))
            }
            Self::Admit => label(Phase::Sync, "admit", ""),
            Self::AdjustOomScore(score) => {
                label(Phase::Security, "adjust oom score", score.to_string())
            }
            Self::InheritOomScore(score) => {
                label(Phase::Security, "inherit oom score", score.to_string())
            }
            Self::RestoreOomScore => label(Phase::Security, "restore oom score", ""),
            Self::EnterResctrl => label(Phase::Cgroups, "enter resctrl group", ""),
            Self::RecordBirth => label(Phase::Configuration, "record", ""),
            Self::RunHooks => label(Phase::Bootstrap, "run hooks", "prestart, createRuntime"),
            Self::SendListener(agent) => Label {
                awaits: Some(INIT),
                ..label(Phase::Sync, "send listener", text(&agent.socket))
            },
            Self::AwaitReady => wait("await ready", "", INIT),
            Self::Commit => label(Phase::Sync, "commit", ""),
            Self::AwaitExec => wait("await exec", "", INIT),
        }
    }
}

impl Labelled for InitStep {
    fn label(&self) -> Label<'_> {
        match self {
            Self::OpenProc => label(Phase::Security, "open own proc", ""),
            Self::JoinCgroups => label(Phase::Cgroups, "join cgroups", ""),
            Self::RunOn(cpus) => {
                let is_set = |cpu: &u32| cpus.is_set(*cpu as usize);
                let cpus: NumberSet = (0..NumberSet::LIMIT).filter(is_set).collect();
                label(Phase::Platform, "run on cpus", cpus.to_string())
            }
            Self::RunOnEveryCpu => label(Phase::Platform, "run on every cpu", ""),
            Self::JoinNamespace { kind, .. } => {
                label(Phase::Platform, "join namespace", names(*kind))
            }
            Self::JoinProcess { kinds, .. } => {
                label(Phase::Platform, "join namespaces", names(*kinds))
            }
            Self::AwaitAdmission => wait("await admission", "", PARENT),
            Self::EnterTime { .. } => label(Phase::Platform, "enter time namespace", ""),
            Self::Undumpable => label(Phase::Security, "clear dumpable", ""),
            Self::CloneTree(tree) => label(Phase::Mounts, "clone tree", taken_tree(tree)),
            Self::CloneDevice(device) => label(Phase::Mounts, "clone device", taken_device(device)),
            Self::BecomeRoot => label(Phase::Security, "become root", ""),
            Self::Unshare(kinds) => label(Phase::Platform, "unshare", names(*kinds)),
            Self::JoinNetwork => wait("join network", "", NETWORK),
            Self::LabelKeys(context) => label(Phase::Security, "label keyring", *context),
            Self::JoinKeyring { name } => label(Phase::Security, "join keyring", text(name)),
            Self::NewSession => label(Phase::Platform, "new session", ""),
            Self::LoopbackUp => label(Phase::Platform, "loopback up", ""),
            Self::SetHostname(name) => label(Phase::Platform, "set hostname", *name),
            Self::SetDomainname(name) => label(Phase::Platform, "set domainname", *name),
            Self::DetachPropagation => label(Phase::Mounts, "detach propagation", ""),
            Self::AttachRoot { path } => label(Phase::Mounts, "attach root", text(path)),
            Self::AttachTree { target, .. } => label(Phase::Mounts, "attach tree", at(target)),
            Self::AttachBind(bind) => {
                let object = match &bind.source {
                    BindSource::Taken(_) => at(&bind.target),
                    BindSource::Inside(tree) => {
                        format!("{} of /{}", at(&bind.target), taken_tree(tree))
                    }
                };
                label(Phase::Mounts, "attach bind", object)
            }
            Self::MakeTree { filesystem, .. } => {
                label(Phase::Mounts, "make tree", describe(filesystem))
            }
            Self::MountFs(mount) => label(Phase::Mounts, "mount", describe(mount)),
            Self::MakeDevices { directory, nodes } => {
                let names: Vec<Cow<'_, str>> = nodes.iter().map(|node| text(node.name)).collect();
                let object = ["/", &text(directory), " ", &names.join(" ")].concat();
                label(Phase::Mounts, "make devices", object)
            }
            Self::MakeLinks { directory, links } => {
                let names: Vec<Cow<'_, str>> = links.iter().map(|link| text(link.name)).collect();
                let object = ["/", &text(directory), " ", &names.join(" ")].concat();
                label(Phase::Mounts, "make links", object)
            }
            Self::MakeDirectory { path } => label(Phase::Mounts, "make directory", inside(path)),
            Self::AwaitHooks => wait("await hooks", "prestart, createRuntime", PARENT),
            Self::RunHooks { hooks, .. } => label(Phase::Bootstrap, "run hooks", hooks.kind),
            Self::PivotRoot => label(Phase::Mounts, "pivot root", ""),
            Self::EnterRoot => label(Phase::Mounts, "enter root", ""),
            Self::EnterRootOf { .. } => label(Phase::Mounts, "enter root of init", ""),
            Self::ChangeRoot { .. } => label(Phase::Mounts, "change root", ""),
            Self::OpenConsole { .. } => label(Phase::Platform, "open console", ""),
            Self::FreezeTmpfs { path, .. } => label(Phase::Mounts, "freeze tmpfs", inside(path)),
            Self::OpenMount { path, .. } => label(Phase::Mounts, "open mount", inside(path)),
            Self::Reconfigure { path, parameters } => {
                let words = with_parameters(String::new(), parameters);
                let object = match words.is_empty() {
                    true => inside(path),
                    false => format!("{} ({words})", inside(path)),
                };
                label(Phase::Mounts, "reconfigure", object)
            }
            Self::SetMountAttr { path, attr, .. } => {
                let object = ["/", &text(path), " ", &attr_words(attr)].concat();
                label(Phase::Mounts, "set mount attributes", object)
            }
            Self::WriteSysctl { path, value } => {
                label(Phase::Platform, "write sysctl", format!("{} = {value}", text(path)))
            }
            Self::MaskPath { path, .. } => label(Phase::Security, "mask", inside(path)),
            Self::ReadonlyPath { path } => label(Phase::Security, "make read-only", inside(path)),
            Self::LimitResources(limits) => {
                label(Phase::Security, "limit resources", format!("{}", limits.len()))
            }
            Self::SetScheduler(attributes) => label(
                Phase::Platform,
                "set scheduler",
                word(&scheduling::POLICIES, attributes.policy),
            ),
            Self::SetIoPriority(priority) => {
                let class = word(&scheduling::IO_CLASSES, priority >> 13);
                let object = format!("{class} {}", priority & 7);
                label(Phase::Platform, "set io priority", object)
            }
            Self::SetPersonality(domain) => {
                label(Phase::Platform, "set personality", word(&scheduling::DOMAINS, *domain))
            }
            Self::SetMemoryPolicy { mode, nodes } => {
                let mode = word(&memory_policy::MODES, mode & memory_policy::MODE_BITS);
                let object = format!("{mode} {}", NumberSet::from(**nodes));
                label(Phase::Platform, "set memory policy", String::from(object.trim_end()))
            }
            Self::SetUmask(mask) => label(Phase::Security, "set umask", format!("{mask:04o}")),
            Self::LimitCapabilities { .. } => label(Phase::Security, "limit capabilities", ""),
            Self::ChangeDirectory { path } => label(Phase::Platform, "chdir to cwd", text(path)),
            Self::ChangeUser { uid, gid, .. } => {
                label(Phase::Security, "change user", format!("{uid}:{gid}"))
            }
            Self::VerifyDirectory => label(Phase::Security, "verify cwd", ""),
            Self::SetCapabilities(_) => label(Phase::Security, "set capabilities", ""),
            Self::NoNewPrivileges => label(Phase::Security, "no new privileges", ""),
            Self::ApplyProfile(order) => {
                let profile = order.strip_prefix("exec ").unwrap_or(order);
                label(Phase::Security, "apply apparmor profile", profile)
            }
            Self::LabelProcess(context) => label(Phase::Security, "label process", *context),
            Self::FindProgram { name, .. } => label(Phase::Bootstrap, "find program", *name),
            Self::CloseFds { from } => {
                label(Phase::Security, "close descriptors", format!("from {from}"))
            }
            Self::AnnounceReady => label(Phase::Sync, "announce ready", ""),
            Self::AwaitCommit => wait("await commit", "", PARENT),
            Self::ReleaseDescriptors { from } => {
                label(Phase::Security, "release descriptors", format!("from {from}"))
            }
            Self::AwaitStart => wait("await start", "", "dayfly start"),
            Self::LoadSeccomp { instructions } => {
                label(Phase::Security, "load seccomp", format!("{instructions} instructions"))
            }
            Self::HandOverListener => wait("hand over listener", "", PARENT),
            Self::BecomeReaper => label(Phase::Bootstrap, "become reaper", ""),
            Self::PassRequests => label(Phase::Bootstrap, "pass requests", ""),
            Self::StandIn => wait("wait for forked program", "", "template"),
            Self::Exec { argv, .. } => {
                let words: Vec<Cow<'_, str>> =
                    argv.iter().map(|arg| arg.to_string_lossy()).collect();
                label(Phase::Bootstrap, "exec", words.join(" "))
            }
        }
    }
}

fn taken_tree(tree: &CloneTree) -> Cow<'_, str> {
    let mut words = attr_words(&tree.attr);
    if let Some(id_map) = &tree.id_map {
        let separator = if words.is_empty() { "" } else { "," };
        words.push_str(separator);
        words.push_str(if id_map.recursive { "ridmap" } else { "idmap" });
    }
    let source = text(tree.source);
    match words.is_empty() {
        true => source,
        false => Cow::Owned([&*source, " (", &words, ")"].concat()),
    }
}

fn taken_device(device: &DeviceSource) -> String {
    let DeviceSource { path, major, minor, .. } = device;
    format!("{} ({major}:{minor})", text(path))
}

/// Returns the configuration's word for a number.
fn word<T: PartialEq>(table: &[(&'static str, T)], number: T) -> &'static str {
    table.iter().find(|(_, known)| *known == number).map_or("", |(word, _)| word)
}

fn at(target: &Target) -> String {
    inside(target.path)
}

fn with_parameters(mut words: String, parameters: &[Parameter]) -> String {
    for (key, value) in parameters {
        if !words.is_empty() {
            words.push(',');
        }
        words.push_str(&text(key));
        if let Some(value) = value {
            words.push('=');
            words.push_str(&text(value));
        }
    }
    words
}

fn describe(mount: &MountFs) -> String {
    let words = with_parameters(attr_words(&mount.attr), mount.parameters);
    let kind = text(mount.kind);
    match words.is_empty() {
        true => [&kind, " on /", &text(mount.target.path)].concat(),
        false => [&kind, " on /", &text(mount.target.path), " (", &words, ")"].concat(),
    }
}

/// Returns the names of namespaces, as in /proc/PID/ns.
fn names(flags: CloneFlags) -> String {
    const NAMES: [(CloneFlags, &str); 8] = [
        (CloneFlags::NEWUSER, "user"),
        (CloneFlags::NEWNS, "mnt"),
        (CloneFlags::NEWPID, "pid"),
        (CloneFlags::NEWNET, "net"),
        (CloneFlags::NEWIPC, "ipc"),
        (CloneFlags::NEWUTS, "uts"),
        (CloneFlags::NEWCGROUP, "cgroup"),
        (CloneFlags::NEWTIME, "time"),
    ];
    let names: Vec<&str> =
        NAMES.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, name)| *name).collect();
    names.join(" ")
}

/// Returns the words for a mount's attributes, for reports.
fn attr_words(attr: &MountAttr) -> String {
    mount_options::attr_words(attr.set).collect::<Vec<_>>().join(",")
}
