//! `run --image`: applies the options of the command line to the configuration of an image. Images are unpacked in a
//! store.
//!
//! The configuration is changed before it is checked and compiled. `rootfs::files` has the container's files in /etc,
//! `rootfs::look` the look-up of users in the layers.

mod files;
pub(crate) mod settings;
mod user;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rootfs::{EtcFile, Layers};
use rustix::io::Errno;
use spec::resources::Resources;
use spec::{Hook, InRoot, Mount, Namespace, NamespaceKind, Process, Spec, Str};
use sys::Context;

use crate::{Error, Warn};
use settings::Settings;

/// The gid of the group tty.
const TTY: u32 = 5;
/// The annotation that names the image.
pub(crate) const NAME: &str = "run.dayfly.image";
/// The largest length of a host name in bytes (sethostname(2)).
const LONGEST_NAME: usize = 64;
/// The path of `--init`'s program in the container. It is on the tmpfs /dev, so that the root filesystem is not
/// changed.
pub const REAPER: &str = "/dev/init";

/// An image, and the changes to its configuration for one container.
#[derive(Debug, Clone, Default)]
pub struct ImageRun<'a> {
    /// The image's directory in the store, absolute.
    pub directory: String,
    /// The image's name.
    pub name: String,
    /// The words that replace the image's command. They follow the entrypoint. If empty, the image's command is used.
    pub command: &'a [&'a str],
    /// The program and its first arguments, in place of the image's entrypoint and command. The words of `command` are
    /// the following arguments.
    pub entrypoint: Option<Vec<String>>,
    /// Whether to allocate a terminal.
    pub tty: bool,
    /// Additional environment entries.
    pub env: Vec<&'a str>,
    /// The working directory, if it differs from the image's.
    pub cwd: Option<&'a str>,
    /// The user and group, `USER[:GROUP]`, if they differ from the image's.
    pub user: Option<&'a str>,
    /// Whether the root filesystem is read-only.
    pub read_only: bool,
    /// The host name; the default is the container's id.
    pub hostname: Option<&'a str>,
    /// Mounts besides the default ones.
    pub mounts: Vec<Mount<'a>>,
    /// The limits.
    pub limits: Resources,
    /// Settings that few containers have.
    pub settings: Settings<'a>,
    /// The network.
    pub network: Network<'a>,
    /// The path of the binary that runs as init and reaps orphans (`--init`): dayfly's own binary.
    pub reaper: Option<String>,
    /// The size of the log in bytes, if the output is kept.
    pub log: Option<u64>,
}

/// The network of a container that runs an image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Network<'a> {
    /// A network namespace of the container's own, with a loopback device only.
    #[default]
    None,
    /// The host's network.
    Host,
    /// The network namespace at this path.
    Join(&'a str),
    /// A namespace of the container's own, on a bridge: the program for the hooks, and its last arguments.
    Bridge([&'a str; 3]),
}

impl<'a> ImageRun<'a> {
    /// Changes the image's configuration for the container `id`, whose layers are listed in the file `layers`.
    pub(crate) fn apply(
        &self,
        spec: &mut Spec<'a>,
        id: &str,
        layers: &str,
        warn: Warn<'_>,
    ) -> Result<(), Error> {
        refuse_without_filter(spec)?;
        if let Some(root) = &mut spec.root {
            root.readonly |= self.read_only;
        }
        self.settings.apply(spec, warn);
        let name = self.host_name(id);
        let linux = spec.linux.as_ref();
        if self.hostname.is_some()
            || linux.is_some_and(|linux| linux.namespace(NamespaceKind::Uts).is_some())
        {
            spec.hostname = Some(Str::from(String::from(name)));
        }
        spec.annotations.insert(Str::new(NAME), Str::from(self.name.clone()));
        if sys::user_namespace::is_nested() && !sys::user_namespace::has_group(TTY) {
            // As in `spec --rootless`, the option `gid` of devpts is removed: terminals cannot
            // belong to an unmapped group.
            for mount in spec.mounts.iter_mut().filter(|mount| *mount.kind == *"devpts") {
                mount.options.retain(|option| **option != *"gid=5");
            }
        }
        self.add_mounts(spec);
        self.check_reaper(spec)?;
        self.add_limits(spec);
        if let Network::Bridge([program, plugins, ports]) = self.network {
            let hook = |verb| Hook {
                path: Str::new(program),
                args: ["dayfly-image", "bridge", verb, plugins, ports].map(Str::new).into(),
                env: None,
                timeout: None,
            };
            spec.hooks.create_runtime.push(hook("add"));
            spec.hooks.poststop.push(hook("del"));
        }
        if matches!(self.network, Network::Host | Network::Join(_)) {
            let linux = spec.linux.get_or_insert_default();
            linux.namespaces.retain(|namespace| namespace.kind != NamespaceKind::Network);
            if let Network::Join(path) = self.network {
                let path = Some(Str::new(path));
                linux.namespaces.push(Namespace { kind: NamespaceKind::Network, path });
            }
        }
        let Some(process) = &mut spec.process else { return Ok(()) };
        self.set_command(process)?;
        process.terminal |= self.tty;
        let has_name = |entry: &Str<'_>| entry.starts_with("HOSTNAME=");
        if !process.env.iter().any(has_name) {
            process.env.push(Str::from(format!("HOSTNAME={name}")));
        }
        process.env.extend(self.env.iter().map(|entry| Str::new(entry)));
        if let Some(cwd) = self.cwd {
            process.cwd = Str::new(cwd);
        }
        self.user.map_or(Ok(()), |user| self.set_user(process, user, layers))?;
        self.settings.apply_to(process);
        Ok(())
    }

    /// Returns the container's own files in /etc.
    pub(crate) fn files(&self, spec: &Spec<'_>, id: &str) -> Vec<EtcFile> {
        files::files(self.host_name(id), self.network, &self.settings, spec)
    }

    fn host_name<'n>(&self, id: &'n str) -> &'n str
    where
        'a: 'n,
    {
        // Ids consist of ASCII characters.
        self.hostname.unwrap_or_else(|| id.get(..LONGEST_NAME).unwrap_or(id))
    }

    /// Adds mounts. Each of them replaces an existing mount with the same destination.
    fn add_mounts(&self, spec: &mut Spec<'a>) {
        let reaper = self.reaper.as_ref().map(|file| Mount {
            destination: InRoot::known(REAPER),
            kind: Str::new("bind"),
            source: Some(Str::from(file.clone())),
            options: ["bind", "ro", "nosuid", "nodev"].map(Str::new).into(),
            ..Mount::default()
        });
        for mount in self.mounts.iter().cloned().chain(reaper) {
            match spec.mounts.iter_mut().find(|there| there.destination == mount.destination) {
                Some(there) => *there = mount,
                None => spec.mounts.push(mount),
            }
        }
    }

    /// Sets limits in place of the image's.
    fn add_limits(&self, spec: &mut Spec<'a>) {
        let Resources { memory, cpu, pids, block_io, .. } = &self.limits;
        if !self.limits.has_limits() {
            return;
        }
        let linux = spec.linux.get_or_insert_default();
        let resources = linux.resources.get_or_insert_with(Box::default);
        resources.memory = memory.clone().or(resources.memory.take());
        resources.cpu = cpu.clone().or(resources.cpu.take());
        resources.pids = pids.clone().or(resources.pids.take());
        resources.block_io = block_io.clone().or(resources.block_io.take());
    }

    /// Refuses `--init` in two cases: if a container without a user namespace has CAP_SYS_ADMIN, with which it could
    /// make the read-only bind mount of dayfly's binary writable; and if /dev is not a tmpfs, because dayfly could then
    /// create the mount point on the host.
    fn check_reaper(&self, spec: &Spec<'a>) -> Result<(), Error> {
        if self.reaper.is_none() {
            return Ok(());
        }
        let is_dev = |mount: &&Mount<'_>| mount.destination == InRoot::known("/dev");
        if spec.mounts.iter().rfind(is_dev).is_none_or(|mount| *mount.kind != *"tmpfs") {
            return Err(Error::text("--init: /dev must be the container's own tmpfs"));
        }
        let bounding = spec.process.as_ref().and_then(|process| process.capabilities.as_ref());
        let may_mount = bounding
            .is_some_and(|sets| sets.bounding.iter().any(|name| **name == *"CAP_SYS_ADMIN"));
        let namespaces = spec.linux.as_ref();
        let has_users =
            namespaces.is_some_and(|linux| linux.namespace(NamespaceKind::User).is_some());
        if may_mount && !has_users {
            return Err(Error::text(
                "--init: a container with CAP_SYS_ADMIN and without a user namespace could write to dayfly's executable",
            ));
        }
        Ok(())
    }

    fn set_command(&self, process: &mut Process<'a>) -> Result<(), Error> {
        if let Some(entrypoint) = &self.entrypoint {
            process.args = entrypoint.iter().map(|word| Str::from(word.clone())).collect();
        } else if !self.command.is_empty() {
            let path = format!("{}/entrypoint", self.directory);
            let words = match sys::fs::read_text(path.as_str()) {
                Ok(text) => text.trim().parse().unwrap_or(0),
                Err(Errno::NOENT) => 0,
                Err(errno) => return Err(sys::Error::new("read", path, errno).into()),
            };
            process.args.truncate(words);
        }
        process.args.extend(self.command.iter().map(|word| Str::new(word)));
        if process.args.is_empty() {
            return Err(Error::text("the image has no default command: name one"));
        }
        if self.reaper.is_some() {
            process.args.insert(0, Str::new(REAPER));
        }
        Ok(())
    }

    fn set_user(&self, process: &mut Process<'a>, user: &str, layers: &str) -> Result<(), Error> {
        let text = sys::fs::read_text(layers).context("read", layers)?;
        let mut user = user::resolve(user, &Layers::of_store(&text)?)?;
        if sys::user_namespace::is_nested() {
            user.groups.retain(|group| sys::user_namespace::has_group(*group));
        }
        process.user.uid = user.uid;
        process.user.gid = user.gid;
        process.user.additional_gids = user.groups;
        if !self.env.iter().any(|entry| entry.starts_with("HOME=")) {
            // The image's HOME is that of the image's user. Without the variable, init reads the home directory from
            // the container's /etc/passwd.
            process.env.retain(|entry| !entry.starts_with("HOME="));
        }
        Ok(())
    }
}

/// The annotation of a configuration that intentionally has no seccomp filter.
pub(crate) const SECCOMP: &str = "run.dayfly.seccomp";

/// Refuses a configuration without a seccomp profile, unless an annotation shows that this is intended: images imported
/// by older versions lack the profile if the engines' profile file was missing.
fn refuse_without_filter(spec: &Spec<'_>) -> Result<(), Error> {
    let filtered = spec.linux.as_ref().is_some_and(|linux| linux.seccomp.is_some());
    let wanted =
        spec.annotations.iter().any(|(name, value)| **name == *SECCOMP && **value == *"none");
    if filtered || wanted {
        return Ok(());
    }
    Err(Error::text(
        "the image was imported without a seccomp profile by an older dayfly: import or pull it again (its layers \
         stay), with --seccomp none if its containers shall have no filter",
    ))
}
