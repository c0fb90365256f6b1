//! Messages as they come from the bus, addresses of buses, and what annotations say of a unit.

use dbus::{Address, Message, Value};

/// An input that is text is an address and an annotation's value; any may be a message.
pub fn target(data: &[u8]) {
    message(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = Address::parse(text);
        if let Ok(value) = Value::parse(text) {
            assert!(!value.signature().is_empty(), "{value:?}");
        }
        let _ = systemd::annotated([("org.systemd.property.TimeoutSec", text)].into_iter());
    }
}

/// Reads a message as it comes from the bus. What is there after a message is the next one's.
fn message(bytes: &[u8]) {
    let Ok(Some(length)) = Message::length(bytes) else { return };
    let Some(bytes) = bytes.get(..length) else { return };
    if let Ok(message) = Message::parse(bytes) {
        let _ = (message.text(), message.variant_text());
        let mut body = message.body();
        let _ = (body.u32(), body.string(), body.signature());
    }
}
