//! Messages as they come from the bus, addresses of buses, and what annotations say of a unit.

/// An input that is text is an address and an annotation's value; any may be a message.
pub fn target(data: &[u8]) {
    cgroup::fuzz::message(data);
    if let Ok(text) = std::str::from_utf8(data) {
        cgroup::fuzz::text(text);
    }
}
