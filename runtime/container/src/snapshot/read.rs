//! Converts mounts in containerd's format to the format of the plan's compiler.

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use rootfs::{Foreign, Layers, Mode, Recipe, Upper};
use rustix::fs::{AtFlags, CWD, FileType, statat};
use spec::mount_options::{MountOptions, SB_RDONLY};
use spec::{InRoot, Mount, Str};
use sys::Context;
use sys::fs::c_path;
use sys::mount::MountAttr;

use super::words::{self, Ids, Words};
use super::{RootMount, is_supported};
use crate::Error;

/// The first kernel version whose erofs mounts a regular file without a loop device
/// (CONFIG_EROFS_FS_BACKED_BY_FILE).
const EROFS_OF_FILES: (u32, u32) = (6, 12);

/// The source of a root filesystem.
#[derive(Debug)]
pub(crate) enum Root {
    /// An overlay.
    Layers(Box<Recipe>),
    /// A bind mount or a new filesystem, with its id mappings.
    Mount(Box<Mount<'static>>),
}

/// The parameters for reading mounts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    /// The kernel's version.
    pub version: (u32, u32),
    /// The mode in which an overlay is assembled; `None` chooses the best mode for this kernel.
    pub mode: Option<Mode>,
    /// The directory where layers are attached temporarily, on kernels that need it.
    pub directory: &'a str,
}

impl Reader<'_> {
    /// Converts the mount that is the root filesystem, and returns the mappings of its ids, if any.
    ///
    /// # Errors
    /// If the mount is of an unsupported type, or its options are invalid.
    pub fn root(&self, mount: &RootMount<'_>) -> Result<(Root, Option<Ids>), Error> {
        let words = self.words(mount)?;
        if words.ids.is_some() && sys::user_namespace::is_nested() {
            return Err(refused(mount, "uidmap and gidmap require the host's root"));
        }
        if mount.kind != "overlay" {
            let root = Root::Mount(Box::new(entry(mount, &words)?));
            return Ok((root, None));
        }
        let rest: Vec<Str<'_>> = words.rest.iter().map(|word| Str::from(&**word)).collect();
        let options = MountOptions::parse(&rest);
        let upper = upper(mount, &options)?;
        let layers = layers(mount, &options)?;
        if let ([layer], Upper::None) = (&*layers, &upper) {
            // Overlayfs requires at least two directories, so a single layer becomes a bind mount. containerd's
            // snapshotters themselves use a bind mount in this case.
            let mut rest = words.rest.clone();
            rest.retain(|word| !word.contains('='));
            rest.extend(["ro", "bind"].map(String::from));
            let source = Str::from(layer.as_str());
            let bind = RootMount { kind: "bind".into(), source, ..RootMount::default() };
            let words = Words { rest, ids: words.ids, is_looped: false };
            return Ok((Root::Mount(Box::new(entry(&bind, &words)?)), None));
        }
        let layers = Layers::stacked(layers.iter().map(String::as_str))?;
        let mode = self.mode_for(mount, &layers, words.ids.is_some())?;
        let recipe = Recipe {
            mode,
            layers,
            upper,
            directory: c_path(self.directory).context("find", self.directory)?,
            root: words.ids.as_ref().map(root_of),
            volatile: false,
            label: None,
            user_xattr: false,
            foreign: Some(foreign(mount, &options)?),
            files: Vec::new(),
        };
        Ok((Root::Layers(Box::new(recipe)), words.ids))
    }

    /// Converts a mount below the root to an entry of the configuration.
    ///
    /// # Errors
    /// If the mount is of an unsupported type, or its options are invalid.
    pub fn below<'s>(&self, mount: &RootMount<'_>, is_labelled: bool) -> Result<Mount<'s>, Error> {
        let mut words = self.words(mount)?;
        // The compiler adds the configuration's label.
        words.rest.retain(|word| !is_labelled || !word.starts_with("context="));
        let mut entry = entry(mount, &words)?;
        if words.ids.is_some() {
            let is_bind = MountOptions::parse(&entry.options).bind;
            let Some(bind) = is_bind else {
                return Err(refused(
                    mount,
                    "below the root, uidmap and gidmap are only for bind mounts",
                ));
            };
            entry.options.push(if bind.recursive { "ridmap" } else { "idmap" }.into());
        }
        Ok(entry)
    }

    fn words(&self, mount: &RootMount<'_>) -> Result<Words, Error> {
        check_kind(mount)?;
        let words = Words::read(mount.options.iter().map(|option| &**option));
        let mut words = words.map_err(|text| refused(mount, text))?;
        if words.is_looped {
            if mount.kind != "erofs" || self.version < EROFS_OF_FILES {
                return Err(refused(mount, "it needs a loop device"));
            }
            // erofs reads the file itself, without a loop device. This has the effect of a loop device with direct I/O.
            words.rest.retain(|word| word != "direct-io");
        }
        Ok(words)
    }

    fn mode_for(
        &self,
        mount: &RootMount<'_>,
        layers: &Layers,
        is_mapped: bool,
    ) -> Result<Mode, Error> {
        let mode = match self.mode {
            Some(mode) => {
                mode.check(self.version)?;
                mode
            }
            None => Mode::choose(self.version, layers, is_mapped),
        };
        match mode {
            // If ids are not mapped, every kernel supports layers that are attached in a directory.
            Mode::Copy if !is_mapped && self.mode.is_none() => Ok(Mode::Parent),
            Mode::Copy if self.mode.is_none() => {
                Err(refused(mount, "ids of the filesystem its layers are on can't be mapped"))
            }
            Mode::Copy => Err(refused(mount, "it can't be a copy")),
            mode => Ok(mode),
        }
    }
}

/// Refuses unsupported types of mounts.
pub(super) fn check_kind(mount: &RootMount<'_>) -> Result<(), Error> {
    match &*mount.kind {
        kind if is_supported(kind) => Ok(()),
        "" => Err(refused(mount, "it has no type")),
        kind if kind.contains('/') => Err(refused(mount, "it is for containerd's mount manager")),
        _ => Err(refused(mount, "it needs a program of the host")),
    }
}

/// Returns an error about a mount.
pub(super) fn refused(mount: &RootMount<'_>, text: impl core::fmt::Display) -> Error {
    let at = match &*mount.target {
        "" => String::new(),
        target => format!(" at {target}"),
    };
    Error::Text(format!("root filesystem mount of type {:?}{at}: {text}", &*mount.kind))
}

/// Returns the host's uid and gid to which the container's root is mapped.
fn root_of((uids, gids): &Ids) -> (u32, u32) {
    let first = |maps: &[spec::IdMapping]| {
        let root = maps.iter().find(|map| map.container_id == 0).or(maps.first());
        root.map_or(0, |map| map.host_id)
    };
    (first(uids), first(gids))
}

/// Converts a bind mount or a new filesystem to an entry of the configuration.
fn entry(mount: &RootMount<'_>, words: &Words) -> Result<Mount<'static>, Error> {
    let mut options: Vec<Str<'static>> =
        words.rest.iter().map(|word| Str::from(word.clone())).collect();
    let named = MountOptions::parse(&options).bind;
    let is_bind = named.is_some() || matches!(&*mount.kind, "bind" | "rbind");
    if is_bind {
        // The remaining words are options of a filesystem, which a bind mount ignores.
        let attributes =
            |word: &Str<'static>| MountOptions::parse(core::slice::from_ref(word)).data.is_empty();
        options.retain(attributes);
        check_directory(mount)?;
    }
    if is_bind && named.is_none() {
        options.push(if mount.kind == "rbind" { "rbind" } else { "bind" }.into());
    }
    let (uid_mappings, gid_mappings) = words.ids.clone().unwrap_or_default();
    Ok(Mount {
        destination: InRoot::new(mount.target.to_string()),
        kind: mount.kind.to_string().into(),
        source: Some(mount.source.to_string().into()),
        options,
        uid_mappings,
        gid_mappings,
    })
}

/// Refuses a source that is not a directory or a link to one.
fn check_directory(mount: &RootMount<'_>) -> Result<(), Error> {
    if !mount.source.starts_with('/') {
        return Err(refused(
            mount,
            format_args!("source {:?} is not an absolute path", &*mount.source),
        ));
    }
    let stat = statat(CWD, &*mount.source, AtFlags::SYMLINK_NOFOLLOW);
    let stat = stat.map_err(|errno| sys::Error::new("stat", &*mount.source, errno))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Ok(()),
        _ => Err(refused(mount, format_args!("source {:?} is not a directory", &*mount.source))),
    }
}

/// Returns the layers of an overlay, the top layer first.
fn layers(mount: &RootMount<'_>, options: &MountOptions<'_>) -> Result<Vec<String>, Error> {
    if let Some(key) = ["lowerdir+", "datadir+"].iter().find(|key| options.value(key).is_some()) {
        return Err(refused(mount, format_args!("option {key} is not for a list of options")));
    }
    let list = options.value("lowerdir").ok_or_else(|| refused(mount, "lowerdir is missing"))?;
    let mut layers = words::paths(list);
    for layer in &mut layers {
        if layer.is_empty() {
            return Err(refused(mount, "layers for data alone (::) are not assembled here"));
        }
        *layer = tidy(layer);
    }
    Ok(layers)
}

/// Removes empty components and `.` from an absolute path that does not contain `..`; returns other paths unchanged.
fn tidy(path: &str) -> String {
    match path.starts_with('/') && path.split('/').all(|name| name != "..") {
        true => spec::clean(path).to_string(),
        false => path.to_string(),
    }
}

fn upper(mount: &RootMount<'_>, options: &MountOptions<'_>) -> Result<Upper, Error> {
    let directory = |key: &str| {
        let Some(value) = options.value(key) else { return Ok(None) };
        let path = words::path(value);
        if !path.starts_with('/') {
            return Err(refused(mount, format_args!("{key} {path:?} is not an absolute path")));
        }
        c_string(mount, &path).map(Some)
    };
    match (directory("upperdir")?, directory("workdir")?) {
        (Some(upper), Some(work)) => Ok(Upper::Given { upper, work }),
        (Some(_), None) => Err(refused(mount, "upperdir needs workdir")),
        (None, _) => Ok(Upper::None),
    }
}

/// Returns the options of overlayfs except the directories.
fn foreign(mount: &RootMount<'_>, options: &MountOptions<'_>) -> Result<Foreign, Error> {
    const DIRECTORIES: [&str; 3] = ["lowerdir", "upperdir", "workdir"];
    let source = if mount.source.is_empty() { "overlay" } else { &*mount.source };
    let mut all = Vec::new();
    let mut words: Vec<&str> = options.superblock_words().filter(|word| *word != "ro").collect();
    words.extend_from_slice(&options.data);
    for word in words {
        let (key, value) = match word.split_once('=') {
            Some((key, _)) if DIRECTORIES.contains(&key) => continue,
            Some((key, value)) => (key, Some(c_string(mount, value)?)),
            None => (word, None),
        };
        all.push((c_string(mount, key)?, value));
    }
    Ok(Foreign {
        source: c_string(mount, source)?,
        options: all,
        read_only: options.superblock_set & SB_RDONLY != 0,
        attr: MountAttr {
            set: options.attr.set,
            clear: options.attr.clear,
            ..MountAttr::default()
        },
    })
}

fn c_string(mount: &RootMount<'_>, text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| refused(mount, "NUL in an option"))
}
