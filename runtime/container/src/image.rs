//! Images in a store for `run --image`: unpacked, with a bundle's configuration.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rustix::io::Errno;
use spec::{Spec, Str};

use crate::Error;

/// The gid of the group tty.
const TTY: u32 = 5;

/// An image, and changes for its container.
#[derive(Debug, Clone, Default)]
pub struct ImageRun<'a> {
    /// The image's directory in the store, absolute.
    pub directory: String,
    /// The command to run instead of the image's own; empty for the image's.
    pub command: &'a [&'a str],
    /// Whether it has a terminal.
    pub tty: bool,
    /// Additional environment entries.
    pub env: Vec<&'a str>,
    /// Its working directory, if changed.
    pub cwd: Option<&'a str>,
    /// Its user and group, if changed.
    pub user: Option<(u32, Option<u32>)>,
    /// Whether the root filesystem is read-only.
    pub read_only: bool,
    /// Its host name.
    pub hostname: Option<&'a str>,
}

impl<'a> ImageRun<'a> {
    /// Applies the changes to the image's configuration.
    pub(crate) fn apply(&self, spec: &mut Spec<'a>) -> Result<(), Error> {
        refuse_without_filter(spec)?;
        if let Some(root) = &mut spec.root {
            root.readonly |= self.read_only;
        }
        if let Some(name) = self.hostname {
            spec.hostname = Some(Str::new(name));
        }
        if sys::user_namespace::is_nested() && !sys::user_namespace::has_group(TTY) {
            // As in `spec --rootless`: terminals cannot belong to an unmapped group.
            for mount in spec.mounts.iter_mut().filter(|mount| *mount.kind == *"devpts") {
                mount.options.retain(|option| **option != *"gid=5");
            }
        }
        let Some(process) = &mut spec.process else { return Ok(()) };
        if !self.command.is_empty() {
            let path = format!("{}/entrypoint", self.directory);
            let words = match sys::fs::read_text(path.as_str()) {
                Ok(text) => text.trim().parse().unwrap_or(0),
                Err(Errno::NOENT) => 0,
                Err(errno) => return Err(sys::Error::new("read", path, errno).into()),
            };
            process.args.truncate(words);
            process.args.extend(self.command.iter().map(|word| Str::new(word)));
        }
        if process.args.is_empty() {
            return Err(Error::text("the image has no command of its own: name one"));
        }
        process.terminal |= self.tty;
        process.env.extend(self.env.iter().map(|entry| Str::new(entry)));
        if let Some(cwd) = self.cwd {
            process.cwd = Str::new(cwd);
        }
        if let Some((uid, gid)) = self.user {
            process.user.uid = uid;
            process.user.gid = gid.unwrap_or(0);
            process.user.additional_gids.clear();
        }
        Ok(())
    }
}

/// The annotation that marks an image's configuration as intentionally without a filter.
const SECCOMP: &str = "run.dayfly.seccomp";

/// Refuses a configuration without a seccomp profile unless it is marked as intentional: older imports left out the
/// profile if the engines' profile file was missing.
fn refuse_without_filter(spec: &Spec<'_>) -> Result<(), Error> {
    let filtered = spec.linux.as_ref().is_some_and(|linux| linux.seccomp.is_some());
    let wanted =
        spec.annotations.iter().any(|(name, value)| **name == *SECCOMP && **value == *"none");
    if filtered || wanted {
        return Ok(());
    }
    Err(Error::text(
        "the image was imported without a seccomp profile by an older dayfly: import or pull it again (its layers \
         stay), with --seccomp none if its containers are to have no filter",
    ))
}
