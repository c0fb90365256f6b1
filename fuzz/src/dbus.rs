//! Messages from the bus, bus addresses, and annotations with unit properties.

use cgroup::systemd::dbus::{Address, Message, Value};

/// Parses every input as a message, and an input that is text also as an address and as an annotation's value.
pub fn target(data: &[u8]) {
    message(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = Address::parse(text);
        if let Ok(value) = Value::parse(text) {
            assert!(!value.signature().is_empty(), "{value:?}");
        }
        let _ = cgroup::systemd::annotated([("org.systemd.property.TimeoutSec", text)].into_iter());
    }
}

/// Parses bytes from the bus as a message. Bytes after the message belong to the next message.
fn message(bytes: &[u8]) {
    let Ok(Some(length)) = Message::length(bytes) else { return };
    let Some(bytes) = bytes.get(..length) else { return };
    if let Ok(message) = Message::parse(bytes) {
        let _ = (message.text(), message.variant_text());
        let mut body = message.body();
        let _ = (body.u32(), body.string(), body.signature());
    }
}
