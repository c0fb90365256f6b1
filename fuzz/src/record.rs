//! Records of containers. An input is a record's bytes, which may contain the id.

/// Any bytes are parsed as a record or rejected; a record that does not match its seal is rejected.
pub fn target(data: &[u8]) {
    container::fuzz::record(data);
}
