//! Container ids, and systemd units.

use cgroup::systemd::{Instance, Unit};

/// Checks that an accepted id names one file inside the state root.
pub fn target(data: &[u8]) {
    let Ok(id) = std::str::from_utf8(data) else { return };
    let word = |byte: u8| byte.is_ascii_alphanumeric() || b"_+-.".contains(&byte);
    let harmless =
        !id.is_empty() && !id.starts_with('.') && id.len() <= spec::MAX_ID && id.bytes().all(word);
    assert_eq!(spec::validate_id(id).is_ok(), harmless, "{id:?}");
    if let Ok(unit) = Unit::parse(Some(id), "id", Instance::System) {
        assert!(!unit.name.contains('/') && !unit.slice.contains('/'));
    }
}
