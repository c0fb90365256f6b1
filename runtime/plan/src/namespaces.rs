//! The namespaces of a container.

use alloc::string::String;
use spec::{IdMapping, Linux, NamespaceKind};
use sys::clone::CloneFlags;

use crate::step::IdMaps;

/// The namespaces of a container, sorted by origin.
#[derive(Debug, Default)]
pub struct Namespaces {
    /// Created by the clone.
    pub new: CloneFlags,
    /// Joined by path.
    pub joined: CloneFlags,
}

impl Namespaces {
    /// Reads the configuration's list of namespaces.
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

    /// Returns whether the container creates or joins this namespace instead of using the host's.
    pub fn has(&self, kind: CloneFlags) -> bool {
        self.new.contains(kind) || self.joined.contains(kind)
    }

    /// Returns whether the container is in a user namespace other than the host's.
    pub fn user(&self) -> bool {
        self.has(CloneFlags::NEWUSER)
    }
}

/// Returns the clone flag of a namespace type.
pub fn flag(kind: NamespaceKind) -> CloneFlags {
    CloneFlags::from_bits_retain(kind.clone_flag())
}

/// Returns whether the configuration has id mappings.
pub fn has_mappings(linux: &Linux<'_>) -> bool {
    !linux.uid_mappings.is_empty() || !linux.gid_mappings.is_empty()
}

/// Returns the text of uid_map and gid_map. If the configuration has no mappings, all ids of the caller's user
/// namespace are mapped to themselves, so that the ids in devpts, tmpfs and images exist.
pub fn maps(uids: &[IdMapping], gids: &[IdMapping]) -> IdMaps {
    let text = |mappings: &[IdMapping]| {
        let text = IdMapping::text(mappings);
        if text.is_empty() { String::from("0 0 4294967295\n") } else { text }
    };
    IdMaps { uid_map: text(uids), gid_map: text(gids) }
}
