//! The namespaces of a container.

use alloc::string::String;
use core::fmt::Write;
use spec::{IdMapping, Linux, NamespaceKind};
use sys::clone::CloneFlags;

use crate::step::IdMaps;

/// The namespaces of a container, sorted by how they come about.
#[derive(Debug, Default)]
pub struct Namespaces {
    /// Made by the clone.
    pub new: CloneFlags,
    /// Joined by path.
    pub joined: CloneFlags,
}

impl Namespaces {
    /// Reads the list of the configuration.
    pub fn of(linux: &Linux<'_>) -> Self {
        let mut namespaces = Self::default();
        for namespace in &linux.namespaces {
            let flag = flag(namespace.kind);
            match namespace.path {
                Some(_) => namespaces.joined |= flag,
                None => namespaces.new |= flag,
            }
        }
        namespaces
    }

    /// Whether the container has this namespace to itself or joins it: anything but the host's.
    pub fn has(&self, kind: CloneFlags) -> bool {
        self.new.contains(kind) || self.joined.contains(kind)
    }

    /// Whether it lives in a user namespace that is not the host's.
    pub fn user(&self) -> bool {
        self.has(CloneFlags::NEWUSER)
    }
}

/// The clone flag of a namespace.
pub fn flag(kind: NamespaceKind) -> CloneFlags {
    CloneFlags::from_bits_retain(kind.clone_flag())
}

/// The text of uid_map and gid_map. A user namespace without mappings gets the
/// caller's own ids, all of them (DESIGN §12, lenience): what devpts, tmpfs and images name exists.
pub fn maps(uids: &[IdMapping], gids: &[IdMapping]) -> IdMaps {
    let text = |mappings: &[IdMapping]| {
        let mut text = String::new();
        for map in mappings {
            let _ = writeln!(text, "{} {} {}", map.container_id, map.host_id, map.size);
        }
        if text.is_empty() { String::from("0 0 4294967295\n") } else { text }
    };
    IdMaps { uid_map: text(uids), gid_map: text(gids) }
}
