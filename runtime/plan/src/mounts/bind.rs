//! Bind mounts.
//!
//! The source may be in the container's root filesystem, at a place that an earlier mount of the container covers. Init
//! opens such a source when it reaches the mount, and resolves its path inside the root, because an image or a volume
//! may contain symbolic links.
//!
//! The host names a root filesystem by `root.path` of its configuration, even if the root has no place on the host (a
//! snapshot, layers). Only a source at or below this path can be in the root. The path at which init attaches the root
//! in its own namespace is another one, often `/`.

use alloc::format;
use alloc::vec::Vec;

use spec::mount_options::MountOptions;
use spec::{InRoot, Mount};
use sys::mount::{MountAttr, attr};

use super::shared_subtrees::{propagation_of_bind, propagation_of_trees};
use super::{proc, warn};
use crate::builder::Builder;
use crate::context::Context;
use crate::path::{below, c_str, in_root, is_at_or_below, made_absolute};
use crate::step::{AttachBind, BindLink, BindSource, CloneTree, InitStep, Target};
use crate::{Error, idmap, keep};

pub(super) fn compile(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    mount: &Mount<'_>,
    options: &MountOptions<'_>,
    destination: &InRoot<'_>,
) -> Result<(), Error> {
    let Some(source) = mount.source.as_deref() else {
        return Err(Error::config(format!("bind mount {destination}: source is missing")));
    };
    let source = made_absolute(context.request.bundle, source);
    proc::check_bind(&source, destination)?;
    warn(builder, destination, "a bind mount", unused(options));
    let link = link(options, destination)?;
    let recursive = options.bind.is_none_or(|bind| bind.recursive);
    let inside = source_inside(context, mount, &source, recursive);
    let id_map = idmap::compile(builder, context, mount, options)?;
    let slot = builder.slot();
    let mut tree = CloneTree {
        slot,
        source: match inside {
            Some(path) => in_root(&InRoot::known(path))?,
            None => c_str(&*source)?,
        },
        keep_link: options.source_nofollow || link == BindLink::Copy,
        recursive,
        propagation: keep::all(propagation_of_bind(
            propagation_of_trees(context.linux)?,
            options,
            recursive,
        )),
        attr: MountAttr {
            set: options.attr.set,
            clear: options.attr.clear,
            ..MountAttr::default()
        },
        recursive_attr: MountAttr {
            set: options.recursive_attr.set,
            clear: options.recursive_attr.clear,
            ..MountAttr::default()
        },
        id_map,
    };
    if context.request.caller.is_confined()
        && *destination == "/sys"
        && tree.attr.set & attr::RDONLY != 0
    {
        // The host's cgroups are mounted below /sys. If only /sys itself were read-only, the
        // caller's own cgroup would stay writable (CVE-2023-25809).
        tree.recursive_attr.set |= attr::RDONLY;
    }
    let target = Target { path: in_root(destination)?, no_symlinks: false };
    let source = match inside {
        Some(_) => BindSource::Inside(tree),
        None => {
            builder.take(tree);
            BindSource::Taken(slot)
        }
    };
    builder.init(match (source, link) {
        (BindSource::Taken(slot), BindLink::Follow) => InitStep::AttachTree { slot, target },
        (source, link) => InitStep::AttachBind(AttachBind { source, target, link }),
    });
    Ok(())
}

/// Returns the options without effect on a bind mount: those of a file system or its superblock, and unknown ones. The
/// kernel and crun ignore them without a word. runc refuses unknown ones, but callers pass the same options for all
/// mounts.
fn unused<'a>(options: &'a MountOptions<'_>) -> Vec<&'a str> {
    // Every field is named, so that each new one is decided here.
    let MountOptions {
        attr: _,
        recursive_attr: _,
        superblock_set: _,
        superblock_clear: _,
        propagation: _,
        bind: _,
        remount: _,
        tmpcopyup,
        id_map: _,
        copy_symlink: _,
        source_nofollow: _,
        destination_nofollow: _,
        data,
    } = options;
    let mut words: Vec<&str> = data.clone();
    for word in options.superblock_words().filter(|word| *word != "ro") {
        words.push(word);
    }
    words.extend(tmpcopyup.then_some("tmpcopyup"));
    words
}

/// Returns the treatment of links in the destination, according to crun's mount options.
fn link(options: &MountOptions<'_>, destination: &str) -> Result<BindLink, Error> {
    match (options.copy_symlink, options.destination_nofollow) {
        (true, false) if !options.source_nofollow => Ok(BindLink::Copy),
        (true, _) => Err(Error::config(format!(
            "mount {destination}: copy-symlink is mutually exclusive with src-nofollow and dest-nofollow"
        ))),
        (false, true) => Ok(BindLink::Keep),
        (false, false) => Ok(BindLink::Follow),
    }
}

/// Returns the source's path in the container if init must open the source when it reaches this mount. This is so if
/// the source lies in the root filesystem, at or below the destination of an earlier mount or, for a recursive bind,
/// above one. All other sources are opened on the host before anything is mounted.
fn source_inside<'p>(
    context: &Context<'_, '_>,
    mount: &Mount<'_>,
    source: &'p str,
    recursive: bool,
) -> Option<&'p str> {
    let path = context.inside_root(source)?;
    let path = if path.is_empty() { "/" } else { path };
    let mut places = context.before(mount).map(|other| &*other.destination);
    let covers = |place: &str| {
        below(path, place).is_some() || recursive && (path == "/" || below(place, path).is_some())
    };
    places.any(covers).then_some(path)
}

/// Returns whether the source of a bind mount lies in the root filesystem, at or below `place`.
pub(super) fn binds_from(context: &Context<'_, '_>, mount: &Mount<'_>, place: &str) -> bool {
    let is_bind = |word: &spec::Str<'_>| *word == "bind" || *word == "rbind";
    if mount.kind != "bind" && !mount.options.iter().any(is_bind) {
        return false;
    }
    let source = mount.source.as_ref().map(|source| made_absolute(context.request.bundle, source));
    source.is_some_and(|source| {
        context.inside_root(&source).is_some_and(|inside| is_at_or_below(inside, place))
    })
}
