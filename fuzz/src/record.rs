//! Records of containers. An input is a record's bytes; the id comes from it where there is one.

/// Whatever the bytes are, a record is read from them or refused; what was changed behind the seal's back is
/// refused.
pub fn target(data: &[u8]) {
    container::fuzz::record(data);
}
